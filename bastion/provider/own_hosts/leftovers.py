"""
What earlier versions left on a host: builds and Pythons that nothing uses any longer.

Each call marks its own build and Python as used now. A build or Python is removed if no call has
used it for a week and no process of the host's login runs from it. Agents and keepers outlive the
calls that started them, and import from their build as long as they live.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from bastion.clock import Clock
from bastion.provider.machine_folder import remove_tree
from bastion.provider.own_hosts.claim import free_host

KEPT_S = 7 * 86400.0
"""How long unused ones are kept: a bastion of another version may use them again."""
PATIENCE_S = 10.0
"""For the last steps of an agent whose machine has left the records."""
_PAUSE_S = 0.2
_ROOMS = ("builds", "python")
_LEAVING = "builds.leaving"


def prune(folder: Path, now: float) -> tuple[str, ...]:
    """Remove builds and Pythons that nothing has used for a week; return their names."""
    old = [each for each in _installed(folder) if now - _used_at(each) > KEPT_S]
    if not old:
        return ()
    lines = tuple(_processes())
    unused = [each for each in old if not _runner_of(each, lines)]
    for each in unused:
        remove_tree(each)
    return tuple(f"{each.parent.name}/{each.name}" for each in unused)


def remove_all(folder: Path, clock: Clock, *, patience_s: float = PATIENCE_S) -> str:
    """
    Remove everything of ours below `folder`; return what is kept and why, or empty.

    The caller has made sure that no machine of the folder is left. An agent that was told to leave
    has `patience_s` to end. What is not ours stays. One step moves all builds away, so a bastion
    that lists this host in the meantime installs its build next to existing ones, not on an empty
    host.
    """
    until = clock.monotonic() + patience_s
    while running := _running_from(folder):
        if clock.monotonic() >= until:
            return running
        clock.sleep(_PAUSE_S)
    remove_tree(folder / _LEAVING)
    with suppress(FileNotFoundError):
        (folder / "builds").rename(folder / _LEAVING)
    for machine in [path.parent for path in folder.glob("*/*/machine")]:
        free_host(machine / "home", os.environ)
        remove_tree(machine)
        with suppress(OSError):
            machine.parent.rmdir()
    for room in (_LEAVING, *_ROOMS):
        remove_tree(folder / room)
    (folder / "lock").unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        left = sorted(each.name for each in folder.iterdir())
        return f"{folder} holds what cannot be removed or is not Bastion's: {', '.join(left[:5])}"
    return ""


def _running_from(folder: Path) -> str:
    """Return which process still runs from a build or a Python below `folder`, or empty."""
    lines = tuple(_processes())
    for each in _installed(folder):
        if pid := _runner_of(each, lines):
            return f"process {pid} still runs from {each}"
    return ""


def _installed(folder: Path) -> Iterator[Path]:
    for room in _ROOMS:
        with suppress(OSError):
            yield from sorted((folder / room).iterdir())


def _used_at(place: Path) -> float:
    """Return when a call used it last; for an incomplete one, when its installation started."""
    mark = place / "whole"
    with suppress(OSError):
        return (mark if mark.exists() else place).stat().st_mtime
    return float("inf")


def _processes() -> Iterator[tuple[str, bytes]]:
    """Yield each other process with its command line and, as far as readable, its variables."""
    mine = str(os.getpid())
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == mine:
            continue
        with suppress(OSError):
            said = (process / "cmdline").read_bytes() + b"\0"
            with suppress(OSError):
                said += (process / "environ").read_bytes()
            yield process.name, said


def _runner_of(place: Path, lines: Iterable[tuple[str, bytes]]) -> str:
    """Return the first process that runs from `place`, or empty."""
    words = (os.fsencode(place), os.fsencode(place.resolve()))
    return next((pid for pid, said in lines if any(word in said for word in words)), "")
