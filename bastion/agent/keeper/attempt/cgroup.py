"""
Cgroups, where this machine lets us write them: exact killing and the memory limit.

Everything else of the keeper works without: where no cgroup can be made, `Cgroups.make` returns
None. The unified hierarchy (v2) is preferred; a v1 memory hierarchy beside it serves the memory
limit. A process gets in by birth: the single-threaded keeper steps in, forks, and steps out again,
so nothing a user starts can be outside. Standard library only.

Source: Linux kernel, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import contextlib
import errno
import os

from bastion.agent.machine.machine_fault import is_machine_fault


class Place:
    """One hierarchy: where the keeper lives in it, and the folder of its own for attempts."""

    __slots__ = ("base", "has_memory", "home", "is_unified")

    def __init__(self, *, home: str, base: str, is_unified: bool, has_memory: bool) -> None:
        self.home = home
        self.base = base
        self.is_unified = is_unified
        self.has_memory = has_memory


class Cgroup:
    """What an attempt lives in: a folder per hierarchy."""

    __slots__ = ("_name", "_places")

    def __init__(self, places: list[Place], name: str) -> None:
        self._places = places
        self._name = name

    def enter(self) -> None:
        """Step in, so that what is forked now is born inside."""
        for path in self._paths():
            _put(path + "/cgroup.procs", str(os.getpid()))

    def leave(self) -> None:
        """Step out again."""
        for place in self._places:
            _put(place.home + "/cgroup.procs", str(os.getpid()))

    def pids(self) -> set[int]:
        """
        Every process inside, in folders that it made itself too.

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
        """Kill everything inside at once, where the kernel can (v2 since Linux 5.14)."""
        for path in self._paths():
            with contextlib.suppress(OSError):
                _put(path + "/cgroup.kill", "1")

    def limit_memory(self, limit_bytes: int) -> bool:
        """
        Limit everything inside together; False where more is in use already (v1).

        Only when the keeper has left: it would be the first to be killed, being the largest.

        Raises:
            OSError: The machine lacks what it takes to limit it.
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
        How many processes the memory limit has killed.

        Raises:
            OSError: That cannot be seen.
        """
        kills = 0
        for path in self._paths():
            for name in ("memory.events", "memory.oom_control"):
                try:
                    said = dict(line.split() for line in _get(f"{path}/{name}").splitlines())
                    kills += int(said.get("oom_kill", 0))
                except ValueError:
                    continue
                except OSError as error:
                    _unless_gone(error)
        return kills

    def remove(self) -> bool:
        """Remove the folders; False while something is alive inside."""
        return False not in [_remove(path) for path in self._paths()]

    def _paths(self) -> list[str]:
        return [f"{place.base}/{self._name}" for place in self._places]


class Cgroups:
    """What this keeper may make, in `places`; without any, it makes none."""

    def __init__(self, places: list[Place]) -> None:
        self._places = places
        self._count = 0

    @property
    def can_limit_memory(self) -> bool:
        """Whether a memory limit would be kept."""
        return any(place.has_memory for place in self._places)

    def end(self) -> None:
        """Take our own folders away."""
        for place in self._places:
            _remove(place.base)

    def leftovers(self) -> list[Cgroup]:
        """
        What an older life of this home left.

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
        """A new cgroup, for processes of one attempt; None where none can be made."""
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
    Where the keeper of `home` may make cgroups, found by trying.

    The folders' name is made of the home's device and inode: the same for every life of it, and
    for no other home of this machine.
    """
    seen = os.stat(home)
    name = f"bastion-{seen.st_dev:x}-{seen.st_ino:x}"
    return [place for found in _hierarchies() if (place := _probe(*found, name)) is not None]


def _hierarchies() -> list[tuple[str, str, bool]]:
    """Mount point, the keeper's own path in it, and whether it is the unified one; v2 first."""
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
    """Make our folder, at the root where we may, and step in and out of one inside it."""
    home = mount + own.rstrip("/")
    for above in dict.fromkeys((mount, home)):
        base = f"{above}/{name}"
        has_memory = not is_unified
        trial = f"{base}/trial-{os.getpid()}"
        try:
            os.makedirs(base, exist_ok=True)
            if is_unified:
                has_memory = _give_memory(above, base)
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


def _give_memory(above: str, base: str) -> bool:
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
    """Raise `error`, unless it says that the folder is gone: its last process took it along."""
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
