"""
Hostile members and hostile machines, which use exactly the permissions that they have.

`mal` is the only member of a project that owns the only machine of a pool. The requests of `mal`
and the writes of that machine are random: real objects with one wrong value. Beside them, jobs of
honest users in other projects and on another pool must end as they would without `mal`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

from bastion.client.change.request_id import Ulids
from bastion.errors import BastionError, NotFoundError
from bastion.job import Claim, End, JobRecord
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.facts import (
    Bell,
    Claimed,
    Drained,
    Ended,
    Fact,
    Health,
    Hello,
    HostFact,
    Reported,
    Started,
)
from bastion.records.reports.registers import ClaimRegister, EndRegister, LifeRegister
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.requests.request import BODIES
from bastion.spec import Job, Launch, Process, Resources
from quota.amounts import Amounts
from tests.simulation.baton import Baton, SimClock
from tests.simulation.invariants import STRICT
from tests.simulation.processes import SOUND, Parts
from tests.simulation.small import small
from tests.simulation.storm import CONFIG, QUOTA
from tests.simulation.world import World

MEMBER, PROJECT, POOL = "mal", "green", "spot"
FOR_S = 150.0
"""How long it continues."""
PAUSE_S = (0.5, 12.0)
_QUOTA = QUOTA.replace('red = ["cat"]', 'red = ["cat"]\ngreen = ["mal"]', 1).replace(
    "[scheduler]", "[project_resources.green]\nh100 = 0.0\n[scheduler]", 1
)
_CONFIG = CONFIG + CONFIG.replace("pools.gpu", "pools.spot").replace(
    "{ h100 = 8 }", "{ cpu = 8 }"
).replace("max_machines = 2", "max_machines = 1")
_ODD: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    10**30,
    -(10**400),
    1e308,
    float("inf"),
    float("nan"),
    "",
    "x" * 3000,
    "\ud800",
    "../../state/root.json",
    "0-999999999999",
    [],
    {},
    [[[]]],
    list(range(2000)),
    {"kind": "ended"},
)
"""Values that are put in the place of others."""
_DEEP = b"[" * 50_000
_LARGE = b'{"schema":1,"targets":["' + b"x" * 300_000 + b'"]}'


def hostile(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario among both."""
    baton = Baton(seed)
    world = _world(baton, parts)
    baton.spawn(MEMBER, lambda: _be_member(world))
    machine = f"mallory@{POOL}-1-0"
    baton.spawn(machine, lambda: _be_machine(world))
    return world


def forged_end(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario with a machine of another pool that ends every running host."""
    world = _world(Baton(seed), parts)
    world.baton.spawn(f"mallory@{POOL}-1-0", lambda: _end_all(world))
    return world


def meddling(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario with a member who cancels every job and writes one bad request."""
    world = _world(Baton(seed), parts)
    world.baton.spawn(MEMBER, lambda: _cancel_all(world))
    return world


def _world(baton: Baton, parts: Parts) -> World:
    world = small(
        baton,
        parts,
        strangers=(MEMBER, "mallory@"),
        config=_CONFIG,
        quota=_QUOTA,
        machines=3,
        per_machine=Amounts({"h100": 8, "cpu": 8}),
    )
    world.invariants.distrusted = POOL
    world.invariants.distrusted_project = PROJECT
    world.checks.append(lambda: _check_views(world))
    return world


def _be_member(world: World) -> None:
    baton, chance = world.baton, world.baton.chance
    ulids = Ulids(SimClock(baton).wall, chance.getrandbits)
    said: list[tuple[str, bytes]] = []
    while baton.now < FOR_S:
        baton.sleep(chance.uniform(*PAUSE_S))
        verb = chance.choice((*BODIES, "launch", "launch", "no-verb"))
        key = layout.request(PROJECT, MEMBER, ulids.new(), verb)
        data = _body(world, verb)
        if said and chance.random() < 0.2:
            key, data = chance.choice(said)  # a replay
        if chance.random() < 0.1:
            key = key.replace(
                f"{PROJECT}/{MEMBER}", chance.choice(("blue/ann", "no/eve", "red/mal"))
            )
        said.append((key, data))
        _create(world, key, data)


def _body(world: World, verb: str) -> bytes:
    chance = world.baton.chance
    drawn = chance.random()
    if drawn < 0.08:
        return chance.choice((_DEEP, _LARGE, b"", b"\xff\xfe", b"{}", b"null", b"1e999"))
    if verb == "launch":
        argv = ["sim", f"{chance.uniform(1, 40):.1f}"]
        job = Job(
            name="main",
            replicas=chance.choice((1, 1, 2)),
            processes=(Process(argv, resources=Resources(cpu=chance.choice((1, 2, 4)))),),
        )
        launch = Launch(name="m", jobs=(job,), project=PROJECT)
        true = encode(LaunchRequest(launch=launch))
    else:
        targets = chance.sample(_ids(world), k=1) * chance.choice((1, 1, 3))
        said: dict[str, object] = {"schema": 1, "targets": targets}
        if verb == "update":
            said["priority"] = chance.randrange(1, 6)
        true = json.dumps(said).encode()
    return true if chance.random() < 0.3 else _bent(chance, true)


def _ids(world: World) -> list[str]:
    root = world.invariants.root
    jobs = list(root.jobs) if root is not None else []
    return [*jobs, *(f"{job}.0-999999999" for job in jobs), "nothing-0123456789"]


def _bent(chance: random.Random, data: bytes) -> bytes:
    """Return a real object with some wrong values."""
    said = json.loads(data)
    for _ in range(chance.choice((1, 1, 2))):
        places = list(_places(said))
        if places:
            holder, name = chance.choice(places)
            holder[name] = deepcopy(chance.choice(_ODD))
    return json.dumps(said).encode()


def _places(said: Any) -> list[tuple[Any, Any]]:
    """Return every place in a value where another value can be put."""
    found: list[tuple[Any, Any]] = []
    if isinstance(said, dict):
        names: list[Any] = list(said)
    elif isinstance(said, list):
        names = list(range(min(len(said), 50)))
    else:
        return found
    for name in names:
        found.append((said, name))
        found += _places(said[name])
    return found


def _be_machine(world: World) -> None:
    baton, chance = world.baton, world.baton.chance
    number = 0
    while baton.now < FOR_S:
        baton.sleep(chance.uniform(*PAUSE_S))
        number += chance.choice((1, 1, 7, 10**9))
        makes: tuple[Callable[[World, int], tuple[str, bytes]], ...] = (
            _bell,
            _bell,
            _bell,
            _register,
            _life,
        )
        key, data = chance.choice(makes)(world, number)
        data = data if chance.random() < 0.5 else _bent(chance, data)
        _create(world, key, _DEEP if chance.random() < 0.03 else data)


def _own(world: World) -> str:
    """Return a machine of the hostile pool, which may not exist."""
    mine = [name for name in world.provider.machines if name.startswith(f"{POOL}-")]
    return world.baton.chance.choice((*mine, *mine, f"{POOL}-1-0"))


def _host(world: World) -> tuple[HostFact, str]:
    """Return a host of any job, and its placement."""
    root = world.invariants.root
    jobs = [job for job in root.jobs.values() if job.attempt] if root is not None else []
    if not jobs:
        return _fact("blue", "none-0123456789", 1, "0" * 16, 0, 0), "gpu-1-0"
    job: JobRecord = world.baton.chance.choice(jobs)
    assert job.attempt is not None
    r, h, place, _ = world.baton.chance.choice(list(job.attempt.each_host()))
    return _fact(job.project, job.id, job.attempt.number, job.attempt.nonce, r, h), place.machine


def _fact(project: str, job: str, attempt: int, nonce: str, r: int, h: int) -> HostFact:
    return HostFact(project=project, job=job, attempt=attempt, nonce=nonce, replica=r, host=h)


def _bell(world: World, number: int) -> tuple[str, bytes]:
    chance = world.baton.chance
    machine = _own(world)
    of, _ = _host(world)
    huge = Amounts({"h100": 10**6, "cpu": 10**6})
    facts: tuple[Fact, ...] = (
        Hello(resources=huge, address="a", hostname="h", version="1"),
        Claimed(of=of, claim=_claim(machine)),
        Started(of=of),
        Reported(of=of, numbers={"loss": 1e308}),
        Ended(of=of, end=End(kind="exited", codes=(0,), sizes=(0,))),
        Drained(of=of),
        Health(bad_devices={"h100": (0, 1)}, unwell="it says so"),
    )
    told = Bell(facts=tuple(chance.choice(facts) for _ in range(chance.choice((1, 2, 5)))))
    life = chance.choice((0, 1, 1, 1, 2, 999))
    return layout.bell(chance.choice((machine, machine, "gpu-2-0")), life, number), encode(told)


def _register(world: World, number: int) -> tuple[str, bytes]:
    chance = world.baton.chance
    of, place = _host(world)
    machine = chance.choice((place, _own(world)))
    seat = {"replica": of.replica, "host": of.host, "machine": machine}
    if chance.random() < 0.5:
        claim = ClaimRegister(write_id=f"m{number}", claim=_claim(machine))
        return layout.claim(of.project, of.job, of.attempt, of.nonce, **seat), encode(claim)  # type: ignore[arg-type]
    end = EndRegister(write_id=f"m{number}", end=End(kind="exited", codes=(0,), sizes=(0,)))
    return layout.end(of.project, of.job, of.attempt, of.nonce, **seat), encode(end)  # type: ignore[arg-type]


def _claim(machine: str) -> Claim:
    return Claim(machine=machine, life=1)


def _life(world: World, number: int) -> tuple[str, bytes]:
    life = world.baton.chance.choice((2, 3, 999, 999_999))
    register = LifeRegister(write_id=f"m{number}", boot_id="1")
    return layout.life(_own(world), life), encode(register)


def _end_all(world: World) -> None:
    """Write an end of every existing host, and ring for it."""
    baton = world.baton
    number = 0
    while baton.now < FOR_S:
        baton.sleep(2.0)
        root = world.invariants.root
        for job in list(root.jobs.values()) if root is not None else []:
            attempt = job.attempt
            if attempt is None or job.project == PROJECT:
                continue
            for r, h, place, _ in attempt.each_host():
                number += 1
                of = _fact(job.project, job.id, attempt.number, attempt.nonce, r, h)
                end = End(kind="exited", codes=(0,), sizes=(0,))
                key = layout.end(
                    of.project,
                    of.job,
                    of.attempt,
                    of.nonce,
                    replica=r,
                    host=h,
                    machine=place.machine,
                )
                _create(world, key, encode(EndRegister(write_id=f"m{number}", end=end)))
                bell = Bell(facts=(Ended(of=of, end=end),))
                mine = _own(world)
                _create(world, layout.bell(mine, 1, 10**6 + number), encode(bell))


def _cancel_all(world: World) -> None:
    """Cancel each job of other projects once, in requests of the own project."""
    baton = world.baton
    ulids = Ulids(SimClock(baton).wall, baton.chance.getrandbits)
    known: set[str] = set()
    _create(world, layout.request(PROJECT, MEMBER, ulids.new(), "cancel"), b'{"targets": 1}')
    while baton.now < FOR_S:
        baton.sleep(2.0)
        root = world.invariants.root
        for job in sorted(set(root.jobs) - known) if root is not None else ():
            known.add(job)
            data = json.dumps({"schema": 1, "targets": [job]}).encode()
            _create(world, layout.request(PROJECT, MEMBER, ulids.new(), "cancel"), data)


def _create(world: World, key: str, data: bytes) -> None:
    """Write what the permissions allow, whatever the bucket answers."""
    with suppress(BastionError, ValueError):
        world.store.create(key, data)


def _check_views(world: World) -> None:
    def refuse(constant: str) -> object:
        world.baton.fail(STRICT, f"{constant} stands in a view")
        return None

    for entry in world.bucket.list(layout.VIEWS):
        with suppress(NotFoundError):
            found = world.bucket.read(entry.key)
            assert found is not None
            try:
                json.loads(found.data, parse_constant=refuse)
            except ValueError as error:
                world.baton.fail(STRICT, f"{entry.key}: {error}")
