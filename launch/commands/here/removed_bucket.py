"""
`bastion down` if the bucket is gone: this machine's own files say what served the bucket.

The folders of its machines are set aside, so that a new bucket can be created in the same place.
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
"""How long machines can take to stop their jobs: more than the grace period."""
_LOOK_S = 0.1
_EXIT_S = 10.0
"""How long a bastion without a bucket can take to exit before it is killed; that is harmless."""
_ASIDE = "of-removed-buckets"


def end_what_served(
    root: str, machines_dir: Path, clock: Clock, *, is_own: bool, is_sure: bool
) -> int:
    """
    End the bastions and the machines of the bucket `root`, which no longer exists.

    Args:
        root: URL of the folder that is gone or has no bucket.
        machines_dir: The folder of its machines.
        clock: For waiting.
        is_own: Whether only this bucket has machines there.
        is_sure: Whether to end machines with running jobs too.

    Raises:
        NotFoundError: Nothing here ever served it: its name is most likely misspelled.
        UsageError: Its machines run jobs, and `is_sure` is false.
    """
    from bastion.agent.machine.stray_processes import find
    from bastion.errors import NotFoundError
    from bastion.provider.serving import bastions_of, is_standing, machines_of

    path = unquote(urlsplit(root).path)
    machines = machines_of(machines_dir, root, is_own=is_own)
    bastions = bastions_of(machines_dir, root)
    if not bastions and not machines:
        raise NotFoundError(
            f"there is no bucket in {path}, and nothing here served one",
            hint="set --root to the folder that you gave to bastion up",
        )
    standing = [folder for folder in machines if is_standing(folder)]
    busy = sum(bool(find(f"{os.path.realpath(folder / 'home')}:")) for folder in standing)
    if busy and not is_sure:
        raise UsageError(
            f"the bucket in {path} is gone, and jobs still run on {counted(busy, 'machine')}",
            hint="if its disk is only unmounted, mount it again; to stop them: bastion down --yes",
        )
    stop(bastions, clock)
    _end(root, standing, clock)
    aside = _set_aside(machines_dir, machines, clock)
    if bastions or standing:
        ended = f"{counted(len(bastions), 'bastion')} and {counted(len(standing), 'machine')}"
        note(f"the bucket in {path} is gone; stopped {ended} that served it")
    else:
        note(f"the bucket in {path} is gone, and nothing here serves it")
    if aside is not None:
        note(f"  {aside} has the logs of its machines and the files of their last jobs")
    return exits.OK


def refuse_in_place_of_another(root: str, machines_dir: Path, *, is_own: bool) -> None:
    """
    Refuse to create a bucket in place of a removed one that something here served.

    Raises:
        UsageError: A bastion or a machine served it: it was removed, or its disk is not mounted.
    """
    from bastion.provider.serving import bastions_of, is_standing, machines_of

    machines = machines_of(machines_dir, root, is_own=is_own)
    serving = bastions_of(machines_dir, root)
    if serving or machines:
        path = unquote(urlsplit(root).path)
        lives = serving or any(map(is_standing, machines))
        left = (
            "its bastion or machines still run here"
            if lives
            else "the folders of its machines are still here"
        )
        raise UsageError(
            f"the bucket that was in {path} is gone, and {left}",
            hint="if its disk is only unmounted, mount it again; otherwise run bastion down, then"
            " bastion up",
        )


def stop(bastions: tuple[int, ...], clock: Clock) -> None:
    """Tell these bastion processes to end, and kill those that do not."""
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
        raise UsageError("its machines do not stop", hint="run bastion down again")


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
    """Wait at most `limit_s` until `is_true` holds; return whether it does."""
    end_at = clock.monotonic() + limit_s
    while not is_true():
        if clock.monotonic() > end_at:
            return False
        clock.sleep(_LOOK_S)
    return True
