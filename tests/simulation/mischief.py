"""
Hostile jobs put links, pipes, devices, folders and garbage where the agent looks for files.

Each machine has the folders of a real agent on a real disk. Some jobs change their own folders
while they run. Jobs of honest users run beside them on the same machines. No agent may die of this,
no byte of another's file may reach the bucket, and honest jobs must end as they would otherwise.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from bastion.agent.attempt_key import host_of
from bastion.agent.home import FolderHome
from bastion.store.port import ObjectStore, Version, Written
from tests.rigs.wrapped import Wrapped
from tests.simulation.asking import launch, one
from tests.simulation.baton import Baton
from tests.simulation.invariants import PRIVATE
from tests.simulation.machines import SimMachine
from tests.simulation.processes import SOUND, Parts
from tests.simulation.small import small
from tests.simulation.world import World

NAME = "imp"
"""The prefix of the names of hostile jobs' launches."""
JOBS = (2, 5)
FOR_S = 200.0
PAUSE_S = (0.2, 6.0)
SECRETS: Mapping[str, bytes] = {
    "secret": b"another's secret\n" * 10,
    "report": b'{"another": 1.0}\n',
    "word": b'{"setup_failure": "another says so"}',
}
"""Files that belong to no hostile job, by name."""
_MARKERS = (b"another's secret", b'"another"', b"another says so")
_PLACES = (
    "checkpointed",
    "finished",
    "report",
    "report",
    "container.json",
    "container.json",
    "notice.json",
    "notice.json.new",
    "code",
    "secrets",
    "python",
    "output",
    "output/a",
    "output/b",
    "output/\udcff",
    "output/d/e/f",
)
_DEEP = b"[" * 3_000
_NONSENSE = (
    b"",
    b"\xff\xfe\n",
    b'{"loss": NaN, "step": Infinity}\n',
    b'{"loss": 1e999, "\\ud800": 1}\n',
    b'{"loss": 1' + b"0" * 3_900 + b"}\n",
    b'{"setup_failure": ["no", {}], "out_of_memory": "perhaps"}',
    b'{"loss": true, "step": "7", "other": null}\n',
    b'[{"loss": 1.0}]\n',
    b'{"loss": 0.5}\n' * 1_000,
    _DEEP + b"\n",
    b"{" + b",".join(b'"n%d": 1' % n for n in range(300)) + b"}\n",
)


class _Sealed(Wrapped):
    """A bucket that no byte of another's files may reach."""

    def __init__(self, store: ObjectStore, baton: Baton) -> None:
        super().__init__(store)
        self._baton = baton

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        self._check(key, data)
        return super().create(key, data)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        self._check(key, data)
        return super().swap(key, data, if_version=if_version)

    def _check(self, key: str, data: bytes) -> None:
        if any(marker in data for marker in _MARKERS):
            self._baton.fail(PRIVATE, f"{key} holds what lies in a file of another")


def mischief(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario with some jobs that do all this at random."""
    baton = Baton(seed)
    chance = baton.chance
    world, root = _world(baton, parts, jobs=chance.randint(*JOBS))
    baton.spawn(NAME, lambda: _be_hostile(world, lambda folder: _spoil(chance, folder, root)))
    return world


def linked(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario with jobs that link to others' files wherever they can."""
    world, root = _world(Baton(seed), parts, jobs=3)

    def link(folder: Path) -> None:
        _put(folder / "report", partial(_link, to=root / "report"))
        _put(folder / "container.json", partial(_link, to=root / "word"))
        _put(folder / "output/a", partial(_link, to=root / "secret"))

    world.baton.spawn(NAME, lambda: _be_hostile(world, link))
    return world


def looped(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario with jobs whose report is a link to itself."""
    world, _ = _world(Baton(seed), parts, jobs=3)

    def loop(folder: Path) -> None:
        _put(folder / "report", partial(_link, to=folder / "report"))

    world.baton.spawn(NAME, lambda: _be_hostile(world, loop))
    return world


def _world(baton: Baton, parts: Parts, *, jobs: int) -> tuple[World, Path]:
    """Return the small scenario with so many hostile jobs, and the folder of all files."""
    root = Path(tempfile.mkdtemp(prefix="bastion-mischief-"))
    for name, data in SECRETS.items():
        (root / name).write_bytes(data)
    chance = baton.chance
    asked = [
        launch(
            chance.uniform(0.0, 40.0),
            "ben",
            f"{NAME}{n}",
            one(
                h100=1,
                runs_s=chance.uniform(8.0, 60.0),
                kind=chance.choice(("sim", "deaf")),
                codes=chance.choice(("0", "1", "1 0")),
                retries=1,
            ),
        )
        for n in range(jobs)
    ]
    world = small(
        baton,
        parts,
        more=asked,
        through=lambda store: _Sealed(store, baton),
    )
    world.provider.furnish = lambda machine: parts.home(root / "machines" / machine.name)
    world.checks.append(lambda: _check_agents(world))
    weakref.finalize(world, _remove, root)
    return world, root


def _remove(root: Path) -> None:
    # A finalizer can run anywhere, even at the end of the stack.
    with suppress(OSError, RecursionError):
        shutil.rmtree(root)


def _be_hostile(world: World, act: Callable[[Path], None]) -> None:
    """Act in the folders of hostile jobs that have a living process."""
    baton = world.baton
    while baton.now < FOR_S:
        baton.sleep(baton.chance.uniform(*PAUSE_S))
        for machine, key in sorted(_hostile(world.provider.standing), key=lambda each: each[1]):
            assert isinstance(machine.folders, FolderHome)
            act(Path(machine.folders.folders(key).marks))
            baton.note("does mischief", key)


def _hostile(machines: Mapping[str, SimMachine]) -> Iterable[tuple[SimMachine, str]]:
    for machine in machines.values():
        for key in machine.living():
            of = host_of(key)
            if of is not None and of.job.startswith(NAME):
                yield machine, key


def _spoil(chance: random.Random, folder: Path, root: Path) -> None:
    place = folder / chance.choice(_PLACES)
    kinds: tuple[Callable[[Path], None], ...] = (
        os.mkfifo,
        _device,
        _socket,
        _huge,
        _folder,
        partial(_link, to=chance.choice([root / name for name in SECRETS])),
        partial(_link, to=chance.choice((Path("/dev/zero"), Path(".."), place, Path("/proc")))),
        partial(_file, data=chance.choice(_NONSENSE)),
        partial(_file, data=chance.choice(_NONSENSE)),
    )
    _put(place, chance.choice(kinds))


def _put(path: Path, kind: Callable[[Path], None]) -> None:
    """Put something at `path` in place of what is there, if this user may."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(path.lstat().st_mode):
                shutil.rmtree(path)
            else:
                path.unlink()
        kind(path)


def _device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero: it has no end


def _socket(path: Path) -> None:
    """Bind a socket through a descriptor, because the path of a socket is at most 107 bytes."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}".encode("utf-8", "surrogateescape"))
    finally:
        os.close(folder)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        disk = os.fstatvfs(file.fileno())
        file.truncate(disk.f_blocks * disk.f_frsize + (1 << 20))


def _folder(path: Path) -> None:
    (path / "below" / "that").mkdir(parents=True)


def _link(path: Path, *, to: Path) -> None:
    path.symlink_to(to)


def _file(path: Path, *, data: bytes) -> None:
    path.write_bytes(data)
    os.utime(path, (1.0, 1.0 + len(data)))


def _check_agents(world: World) -> None:
    """No fault of the world kills an agent here, so none may die."""
    for step in world.baton.trace:
        if step.operation == "agent dies":
            world.baton.fail(PRIVATE, f"the agent of {step.key} died of what a job put there")
