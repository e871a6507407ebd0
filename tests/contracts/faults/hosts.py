"""Machines of this host, of an engine, of clusters and of your own hosts, with their faults."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bastion.clock import SystemClock
from bastion.machine import Machine, Pool
from bastion.provider.build import build_digest
from bastion.provider.local import LocalProvider
from bastion.provider.own_hosts.ssh import SshProvider
from tests.contracts.docker_place import engine_on
from tests.contracts.faults.ground import Ground
from tests.contracts.kubernetes_place import place_on, pod_of
from tests.contracts.provider_place import POOL, Place
from tests.contracts.slurm_place import BUCKET, slurm_place_on
from tests.servers.engine import FakeEngine
from tests.servers.kubernetes.server import kubernetes
from tests.servers.slurm import FakeSlurm
from tests.servers.sshd import hosts

HOSTS = ("one", "two")
_SOON_S = 10.0
_AGENT = """
case $1 in
end) [ -e {folder}/stays ] || : >"$3/ended" ;;
*)
    set -- $(sed 's/.*) //' /proc/$$/stat)
    echo "$$ ${{20}}" >agent.lock
    exec sleep 1000
    ;;
esac
"""
"""Started in place of an agent: it holds the lock of its home, and does nothing."""


class _FailsHalfWay:
    """
    Machines of this machine, whose creates fail on demand, as with a full disk.

    `lost`: the agent was started but its note could not be written. `dropped`: nothing was done.
    """

    vouches = True

    def __init__(self, provider: LocalProvider, folder: Path) -> None:
        self._provider = provider
        self._folder = folder
        self.lost = self.dropped = 0
        self.list = provider.list
        self.delete = provider.delete

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port."""
        wrong = {"lost": ".agent.new", "dropped": ".machine.new"}
        what = next((each for each in wrong if getattr(self, each)), "")
        if not what:
            self._provider.create(machines, pool)
            return
        setattr(self, what, 0)
        # A folder is in the place of a file that is written before it is renamed.
        in_the_way = self._folder / machines[0].name / wrong[what]
        in_the_way.mkdir(parents=True)
        try:
            self._provider.create(machines, pool)
        finally:
            lock = self._folder / machines[0].name / "home" / "agent.lock"
            _await(lambda: what == "dropped" or (lock.exists() and lock.read_text() != ""))
            in_the_way.rmdir()


@contextlib.contextmanager
def local_ground(folder: Path) -> Iterator[Ground]:
    """Provide machines of this machine."""
    script = folder / "agent.sh"
    script.write_text(_AGENT.format(folder=folder))
    directory = folder / "machines"
    local = LocalProvider(
        f"file://{folder}/root", directory, SystemClock(), command=("sh", str(script))
    )
    provider = _FailsHalfWay(local, directory)

    def kill_agent(name: str) -> None:
        _kill(directory / name / "home" / "agent.lock")

    def vanish(name: str) -> None:
        kill_agent(name)
        shutil.rmtree(directory / name)

    place = Place(provider=provider, let_time_pass=lambda: time.sleep(0.01), kill_agent=kill_agent)
    try:
        yield Ground(
            place=place,
            lose=lambda is_made: setattr(provider, "lost" if is_made else "dropped", 1),
            keep_deleted=lambda is_on: _flag(folder / "stays", is_on),
            vanish=vanish,
        )
    finally:
        for lock in directory.glob("*/home/agent.lock"):
            _kill(lock)


@contextlib.contextmanager
def docker_ground(folder: Path) -> Iterator[Ground]:
    """Provide containers of a test engine, with two devices."""
    engine = FakeEngine(folder / "docker.socket", images={"bench/shell:1"})
    engine.open()

    def lose(is_made: bool) -> None:
        if is_made:
            engine.lost = 1
        else:
            engine.dropped = 1

    def vanish(name: str) -> None:
        made = engine.find(f"bastion-0a1b2c3d4e5f-{name}")
        made.end_all()
        made.is_over.wait(_SOON_S)
        del engine.made[made.id]

    def away(is_on: bool) -> None:
        if is_on == engine.path.exists():
            (engine.close if is_on else engine.open)()

    try:
        with contextlib.contextmanager(engine_on)(f"unix://{engine.path}", folder) as place:
            yield Ground(
                place=place,
                lose=lose,
                keep_deleted=lambda is_on: setattr(engine, "stays", is_on),
                vanish=vanish,
                pace=away,
            )
    finally:
        away(False)
        engine.end()


@contextlib.contextmanager
def slurm_ground(folder: Path) -> Iterator[Ground]:
    """Provide nodes of a test Slurm."""
    fake = FakeSlurm(folder)
    with slurm_place_on(fake) as place:
        yield Ground(
            place=place,
            lose=lambda is_made: fake.set("lost" if is_made else "dropped"),
            keep_deleted=lambda is_on: fake.set("stays", is_on=is_on),
            vanish=lambda name: fake.fail_node(f"bastion-{BUCKET}-{name}"),
            pace=lambda is_on: fake.set("down", is_on=is_on),
        )


@contextlib.contextmanager
def kubernetes_ground(folder: Path) -> Iterator[Ground]:
    """Provide pods of a test Kubernetes."""
    with kubernetes(folder) as cluster:

        def come_back() -> None:
            for node in cluster.kubelet.nodes:
                node.is_silent = False

        yield Ground(
            place=place_on(cluster),
            lose=lambda is_made: setattr(cluster, "lost" if is_made else "dropped", 1),
            keep_deleted=lambda is_on: setattr(cluster.kubelet, "keeps_deleted", is_on),
            vanish=lambda name: cluster.kubelet.lose(pod_of(name)),
            come_back=come_back,
            expire=lambda is_on: setattr(cluster, "is_expired", is_on),
            pace=lambda is_on: setattr(cluster, "is_pacing", is_on),
        )
        assert cluster.misfits == []


_ROAD = """
said=$(mktemp); trap 'rm -f "$said"' EXIT; cat >"$said"
is() {{ grep -q "\\"do\\": \\"$1\\"" "$said"; }}
for each; do [ ! -e "{folder}/away-$each" ] || {{ echo "No route to host" >&2; exit 255; }}; done
[ ! -e {folder}/denied ] || {{ echo "Permission denied (publickey)." >&2; exit 255; }}
[ ! -e {folder}/full ] || {{ echo "Connection reset by peer" >&2; exit 255; }}
if is create && rm {folder}/dropped 2>/dev/null; then exit 255; fi
if is delete && [ -e {folder}/stays ]; then echo '{{"known": true}}'; exit 0; fi
if is create && rm {folder}/lost 2>/dev/null; then ssh "$@" <"$said" >/dev/null; exit 255; fi
ssh "$@" <"$said"
"""
"""The route to the hosts, with its faults."""


@contextlib.contextmanager
def ssh_ground(folder: Path) -> Iterator[Ground]:
    """Provide two own hosts: each an sshd on this machine, with its own home."""
    road = folder / "road.sh"
    road.write_text(_ROAD.format(folder=folder))
    with hosts(folder, *HOSTS) as config:
        pool = replace(
            POOL,
            provider="ssh",
            zones=HOSTS,
            machines_per_zone=1,
            permit_s=180.0,
            options={"ssh_config": str(config), "python": sys.executable},
        )
        provider, other = (
            SshProvider(
                f"file://{folder}/root",
                pool,
                bucket=bucket,
                build=build_digest(),
                ssh=("sh", str(road)),
            )
            for bucket in ("ours", "theirs")
        )

        def kill_agent(name: str) -> None:
            (note,) = folder.glob(f"*/.bastion/ours/{name}/agent")
            _kill(note)

        def vanish(name: str) -> None:
            kill_agent(name)
            (note,) = folder.glob(f"*/.bastion/ours/{name}/machine")
            _flag(folder / f"away-{note.read_text().split()[1]}", is_on=True)

        def come_back() -> None:
            for flag in folder.glob("away-*"):
                flag.unlink()

        place = Place(
            provider=provider,
            let_time_pass=lambda: time.sleep(0.01),
            kill_agent=kill_agent,
            zones=HOSTS,
            pool=pool,
        )
        try:
            yield Ground(
                place=place,
                lose=lambda is_made: _flag(folder / ("lost" if is_made else "dropped"), is_on=True),
                keep_deleted=lambda is_on: _flag(folder / "stays", is_on),
                vanish=vanish,
                come_back=come_back,
                stock=lambda left: _occupy(other, pool, left),
                expire=lambda is_on: _flag(folder / "denied", is_on),
                pace=lambda is_on: _flag(folder / "full", is_on),
            )
        finally:
            for note in folder.glob("*/.bastion/*/*/agent"):
                _kill(note)


def _occupy(theirs: SshProvider, pool: Pool, left: int | None) -> None:
    """Put another bucket's machine on the second host, or end it."""
    machine = Machine(name="here-1-0", pool="here", zone=HOSTS[1])
    if left is not None:
        theirs.create([machine], pool)
        return
    theirs.delete(machine.name)
    _await(lambda: all(each.state == "gone" for each in theirs.list()))


def _flag(path: Path, is_on: bool) -> None:
    if is_on:
        path.touch()
    else:
        path.unlink(missing_ok=True)


def _kill(note: Path) -> None:
    """Kill the process that a file names first, if it lives."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        os.kill(int(note.read_text().split()[0]), signal.SIGKILL)


def _await(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + _SOON_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
