"""
`bastion down` where the bucket is gone: what served it is found by what this machine knows of it.

The folders of its machines are set aside, so that a new bucket may begin in the same place.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from launch import exits
from launch.errors import UsageError
from launch.screen.notes import note
from launch.screen.render import counted

if TYPE_CHECKING:
    from bastion.clock import Clock

ENDING_S = 90.0
"""How long machines may take to stop what they run: its grace, and then some."""
_LOOK_S = 0.1
_EXIT_S = 10.0
"""How long a bastion without a bucket may take to exit before it is killed, which harms nothing."""
_ASIDE = "of-removed-buckets"


def end_what_served(
    root: str, machines_dir: Path, clock: Clock, *, is_own: bool, is_sure: bool
) -> int:
    """
    End the bastions and the machines of the bucket `root`, which is no more.

    Args:
        root: URL of the folder that is gone, or holds no bucket.
        machines_dir: Where its machines live.
        clock: For waiting.
        is_own: Whether nothing but this bucket has machines there.
        is_sure: Also end machines that run something.

    Raises:
        NotFoundError: Nothing here ever served it: its name is most likely mistyped.
        UsageError: Its machines run something, and `is_sure` is false.
    """
    from bastion.agent.machine.stray_processes import find
    from bastion.errors import NotFoundError
    from bastion.provider.serving import bastions_of, is_standing, machines_of

    path = unquote(urlsplit(root).path)
    machines = machines_of(machines_dir, root, is_own=is_own)
    bastions = bastions_of(machines_dir, root)
    if not bastions and not machines:
        raise NotFoundError(
            f"no bucket is in {path}, and nothing of one is here",
            hint="--root names the folder that bastion up was given",
        )
    standing = [folder for folder in machines if is_standing(folder)]
    busy = sum(bool(find(f"{os.path.realpath(folder / 'home')}:")) for folder in standing)
    if busy and not is_sure:
        raise UsageError(
            f"the bucket in {path} is gone, and jobs still run on {counted(busy, 'machine')}",
            hint="bastion down --yes stops them; if its disk is only unmounted, mount it again",
        )
    stop(bastions, clock)
    _end(root, standing, clock)
    aside = _set_aside(machines_dir, machines, clock)
    if bastions or standing:
        ended = f"{counted(len(bastions), 'bastion')} and {counted(len(standing), 'machine')}"
        note(f"the bucket in {path} is gone; what served it has ended: {ended}")
    else:
        note(f"the bucket in {path} is gone, and nothing of it runs here")
    if aside is not None:
        note(f"  {aside} has the logs of those machines, and the files of their last jobs")
    return exits.OK


def refuse_in_place_of_another(root: str, machines_dir: Path, *, is_own: bool) -> None:
    """
    Return if nothing here served a bucket that was in the folder `root` before.

    Raises:
        UsageError: A bastion or a machine did: the bucket was removed, or its disk is not mounted.
    """
    from bastion.provider.serving import bastions_of, is_standing, machines_of

    machines = machines_of(machines_dir, root, is_own=is_own)
    serving = bastions_of(machines_dir, root)
    if serving or machines:
        path = unquote(urlsplit(root).path)
        lives = serving or any(map(is_standing, machines))
        left = "what served it is still here" if lives else "the folders of its machines stand here"
        raise UsageError(
            f"the bucket that was in {path} is gone, and {left}",
            hint="if its disk is only unmounted, mount it again; otherwise bastion down, then"
            " bastion up",
        )


def stop(bastions: tuple[int, ...], clock: Clock) -> None:
    """End these processes of bastions: asked to, and killed if they do not."""
    from bastion.provider.machine_folder import started

    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in filter(started, bastions):
            os.kill(pid, number)
        if until(clock, lambda: not any(map(started, bastions)), _EXIT_S):
            return


def _end(root: str, machines: list[Path], clock: Clock) -> None:
    from bastion.provider.local import LocalProvider

    pools = sorted({folder.parent for folder in machines})
    providers = {pool: LocalProvider(root, pool, clock) for pool in pools}
    for folder in machines:
        providers[folder.parent].delete(folder.name)

    def have_ended() -> bool:
        listed = {(pool, at.name): at.state for pool in pools for at in providers[pool].list()}
        return all(listed.get((at.parent, at.name), "gone") == "gone" for at in machines)

    if not until(clock, have_ended, ENDING_S):
        raise UsageError("its machines do not stop", hint="bastion down, once more")


def _set_aside(machines_dir: Path, machines: list[Path], clock: Clock) -> Path | None:
    if not machines:
        return None
    aside = machines_dir.parent / _ASIDE / str(int(clock.wall()))
    for folder in machines:
        place = aside / folder.relative_to(machines_dir)
        place.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(place)
        for empty in (folder.parent, folder.parent.parent):
            if empty != machines_dir and not any(empty.iterdir()):
                empty.rmdir()
    return aside


def until(clock: Clock, is_true: Callable[[], bool], limit_s: float) -> bool:
    """Wait until something is true, `limit_s` at most; whether it is."""
    end_at = clock.monotonic() + limit_s
    while not is_true():
        if clock.monotonic() > end_at:
            return False
        clock.sleep(_LOOK_S)
    return True
