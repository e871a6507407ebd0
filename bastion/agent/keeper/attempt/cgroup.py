"""
Cgroups, if this machine permits them: exact killing and the memory limit.

The rest of the keeper works without them: if no cgroup can be created, `Cgroups.make` returns None.
The unified hierarchy (v2) is preferred; a v1 memory hierarchy beside it serves the memory limit. A
process is a member from its fork on: the single-threaded keeper enters, forks, and leaves again, so
no user process is ever outside. Standard library only.

Source: Linux kernel, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import contextlib
import errno
import os

from bastion.agent.machine.machine_fault import is_machine_fault


class Place:
    """One hierarchy: the keeper's own cgroup in it, and the folder for attempts."""

    __slots__ = ("base", "has_memory", "home", "is_unified")

    def __init__(self, *, home: str, base: str, is_unified: bool, has_memory: bool) -> None:
        self.home = home
        self.base = base
        self.is_unified = is_unified
        self.has_memory = has_memory


class Cgroup:
    """The cgroup of an attempt: a folder per hierarchy."""

    __slots__ = ("_name", "_places")

    def __init__(self, places: list[Place], name: str) -> None:
        self._places = places
        self._name = name

    def enter(self) -> None:
        """Move this process in, so that its children are forked inside."""
        for path in self._paths():
            _put(path + "/cgroup.procs", str(os.getpid()))

    def leave(self) -> None:
        """Move this process out again."""
        for place in self._places:
            _put(place.home + "/cgroup.procs", str(os.getpid()))

    def pids(self) -> set[int]:
        """
        Return every process inside, in nested cgroups that the attempt made too.

        Raises:
            OSError: They cannot be seen.
        """
        found: set[int] = set()
        for path in self._paths():
            for folder, _, _ in os.walk(path, onerror=_unless_gone):
                try:
                    found.update(map(int, _get(folder + "/cgroup.procs").split()))
                except OSError as error:
                    _unless_gone(error)
        return found - {os.getpid()}

    def kill(self) -> None:
        """Kill every process inside in one step, if the kernel can (v2 since Linux 5.14)."""
        for path in self._paths():
            with contextlib.suppress(OSError):
                _put(path + "/cgroup.kill", "1")

    def limit_memory(self, limit_bytes: int) -> bool:
        """
        Limit the memory of all processes together; return False if more is already in use (v1).

        Call it only after the keeper has left: as the largest process, it would be killed first.

        Raises:
            OSError: The machine is at fault.
        """
        try:
            for place in self._places:
                if place.has_memory:
                    _limit(f"{place.base}/{self._name}", limit_bytes, is_unified=place.is_unified)
        except OSError as error:
            if is_machine_fault(error):
                raise
            return False
        return True

    def oom_kills(self) -> int:
        """
        Return how many processes the memory limit has killed.

        Raises:
            OSError: That cannot be seen.
        """
        kills = 0
        for path in self._paths():
            for name in ("memory.events", "memory.oom_control"):
                try:
                    counts = dict(line.split() for line in _get(f"{path}/{name}").splitlines())
                    kills += int(counts.get("oom_kill", 0))
                except ValueError:
                    continue
                except OSError as error:
                    _unless_gone(error)
        return kills

    def remove(self) -> bool:
        """Remove the folders; return False while a process lives inside."""
        return False not in [_remove(path) for path in self._paths()]

    def _paths(self) -> list[str]:
        return [f"{place.base}/{self._name}" for place in self._places]


class Cgroups:
    """The cgroups of one keeper, in `places`; without a place there are none."""

    def __init__(self, places: list[Place]) -> None:
        self._places = places
        self._count = 0

    @property
    def can_limit_memory(self) -> bool:
        """Whether a memory limit can be enforced."""
        return any(place.has_memory for place in self._places)

    def end(self) -> None:
        """Remove the keeper's own folders."""
        for place in self._places:
            _remove(place.base)

    def leftovers(self) -> list[Cgroup]:
        """
        Return the cgroups that older lives of this home left.

        Raises:
            OSError: It cannot be seen.
        """
        return [
            Cgroup([place], name)
            for place in self._places
            for name, is_folder in _entries(place.base)
            if is_folder
        ]

    def make(self, *, limits_memory: bool) -> Cgroup | None:
        """Make a cgroup for processes of one attempt; None if that fails."""
        wanted = self._places[:1]
        if limits_memory:
            limiting = [place for place in self._places if place.has_memory][:1]
            wanted = wanted if limiting == wanted else wanted + limiting
        if not wanted:
            return None
        self._count += 1
        name = f"{os.getpid()}-{self._count}"
        try:
            for place in wanted:
                os.mkdir(f"{place.base}/{name}")
        except OSError:
            Cgroup(wanted, name).remove()
            return None
        return Cgroup(wanted, name)


def find_places(home: str) -> list[Place]:
    """
    Find, by trying, where the keeper of `home` may create cgroups.

    The folders are named by the home's device and inode: the same in every life of it, and
    different from any other home of this machine.
    """
    seen = os.stat(home)
    name = f"bastion-{seen.st_dev:x}-{seen.st_ino:x}"
    return [place for found in _hierarchies() if (place := _probe(*found, name)) is not None]


def _hierarchies() -> list[tuple[str, str, bool]]:
    """Return mount point, the keeper's path in it, and whether it is unified; v2 first."""
    own: dict[str, str] = {}
    for line in _get("/proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        own.update(dict.fromkeys(kinds.split(","), path))
    found = []
    for line in _get("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        mount = left.split()[4]
        kind, _, options = right.split(maxsplit=2)
        if kind == "cgroup2" and "" in own:
            found.append((mount, own[""], True))
        elif kind == "cgroup" and "memory" in options.split(",") and "memory" in own:
            found.append((mount, own["memory"], False))
    return sorted(found, key=lambda hierarchy: not hierarchy[2])


def _probe(mount: str, own: str, is_unified: bool, name: str) -> Place | None:
    """Make the keeper's folder, at the root if permitted; enter and leave a cgroup in it."""
    home = mount + own.rstrip("/")
    for above in dict.fromkeys((mount, home)):
        base = f"{above}/{name}"
        has_memory = not is_unified
        trial = f"{base}/trial-{os.getpid()}"
        try:
            os.makedirs(base, exist_ok=True)
            if is_unified:
                has_memory = _enable_memory(above, base)
            os.mkdir(trial)
            try:
                _put(trial + "/cgroup.procs", str(os.getpid()))
            finally:
                _put(home + "/cgroup.procs", str(os.getpid()))
                _remove(trial)
        except OSError:
            _remove(base)
            continue
        return Place(home=home, base=base, is_unified=is_unified, has_memory=has_memory)
    return None


def _enable_memory(above: str, base: str) -> bool:
    for path in (above, base):
        with contextlib.suppress(OSError):
            _put(path + "/cgroup.subtree_control", "+memory")
    return "memory" in _get(base + "/cgroup.subtree_control").split()


def _limit(path: str, limit_bytes: int, *, is_unified: bool) -> None:
    if not is_unified:
        _put(path + "/memory.limit_in_bytes", str(limit_bytes))
        with contextlib.suppress(OSError):
            _put(path + "/memory.memsw.limit_in_bytes", str(limit_bytes))
        return
    _put(path + "/memory.max", str(limit_bytes))
    for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
        with contextlib.suppress(OSError):
            _put(f"{path}/{name}", value)


def _entries(path: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(path) as found:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    except OSError as error:
        _unless_gone(error)
        return []


def _remove(path: str) -> bool:
    try:
        for name, is_folder in _entries(path):
            if is_folder:
                _remove(f"{path}/{name}")
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _unless_gone(error: OSError) -> None:
    """Raise `error`, unless the folder is gone: it may disappear with its last process."""
    if error.errno not in (errno.ENOENT, errno.ENODEV, errno.ENOTDIR):
        raise error


def _put(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _get(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
