"""
The wild: random launches, verbs and quota edits, on three machines, in any storm.

Everything that is drawn can end: every gang fits on the empty pool (sizes are powers of two), held
jobs are released later, and the last quota file is the first.
"""

from __future__ import annotations

import random
from typing import Literal

from bastion.records.requests.answer import Answer
from bastion.records.requests.job_request import JobsRequest, UpdateRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.requests.request import Body
from bastion.spec import Job, Launch, Process, Resources
from quota.amounts import Amounts
from tests.simulation.asking import USERS, wish
from tests.simulation.baton import Baton
from tests.simulation.fates import Rates, Storm
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.rights import PROJECTS
from tests.simulation.storm import CONFIG, HARDNESS, QUOTA
from tests.simulation.world import World

MACHINES = 3
LAUNCHES = 16
LAST_S = 200.0
"""The time by which everything was submitted."""
RELEASED_S = LAST_S + 300.0
"""When held jobs are released: long after the last quota file, which is read once per minute."""

_QUOTA = QUOTA.replace("h100 = 16", f"h100 = {8 * MACHINES}", 1)
_CONFIG = CONFIG.replace("max_machines = 2", f"max_machines = {MACHINES}").replace(
    "h100 = 8", "h100 = 8, cpu = 12"
)
_EDITS = (
    "this is not TOML [",
    _QUOTA.replace("0.625", "0.25"),
    _QUOTA.replace("0.375", "0.125"),
    _QUOTA.replace('red = ["cat"]', 'red = ["dan"]'),
    _QUOTA.replace("h100 = 24", "h100 = 16"),
)
"""Texts that are in force for a while: broken, cut, without one member, with a smaller pool."""


def wild(seed: int, parts: Parts = SOUND) -> World:
    """Return a world in which everything is random."""
    baton = Baton(seed)
    chance = baton.chance
    rates = Rates().times(chance.choice(HARDNESS))
    edits = [(chance.uniform(0, LAST_S), chance.choice(_EDITS)) for _ in range(chance.randrange(3))]
    return World(
        baton,
        quota=_QUOTA,
        config=_CONFIG,
        wishes=_wishes(chance),
        fates=Storm(chance, rates, spared=USERS),
        bastions=chance.choice((1, 2, 3)),
        has_lease=chance.random() < 0.5,
        parts=parts,
        machines=MACHINES,
        per_machine=Amounts({"h100": 8, "cpu": 12}),
        edits=(*sorted(edits), (LAST_S + 50.0, _QUOTA)),
    )


def _wishes(chance: random.Random) -> list[Wish]:
    wishes: list[Wish] = []
    for n in range(LAUNCHES):
        at_s, user = chance.uniform(0, LAST_S / 2), chance.choice(USERS)
        launch = _launch(chance, f"l{n}", PROJECTS[user])
        wishes.append(wish(at_s, user, "launch", f"l{n}", LaunchRequest(launch=launch)))
        at_s += chance.uniform(0, 60)
        late_s = RELEASED_S + n
        held = [index for index, job in enumerate(launch.jobs) if job.hold]
        wishes += [_verb(late_s, user, f"l{n}", "release", index=index) for index in held]
        if chance.random() < 0.25:
            verb = chance.choice(("cancel", "cancel", "update", "hold"))
            wishes.append(_verb(at_s, user, f"l{n}", verb, index=0))
            if verb == "hold":
                wishes.append(_verb(late_s, user, f"l{n}", "release", index=0))
    return sorted(wishes, key=lambda each: each.at_s)


def _launch(chance: random.Random, name: str, project: str) -> Launch:
    jobs = []
    left = 8 * MACHINES
    for n in range(chance.choice((1, 1, 1, 2, 3))):
        replicas = chance.choice((1, 1, 1, 2, 3))
        h100 = chance.choice((0, 1, 2, 4)) if replicas > 1 else chance.choice((1, 2, 4, 8))
        h100 = h100 if replicas * h100 <= left else 0
        left -= replicas * h100
        asked = {"h100": h100, "cpu": chance.choice((0, 0, 1, 3, 4))}
        codes = chance.choice(("0", "0", "0", "3", "1 0", "none", "-9"))
        kind = chance.choice(("sim", "sim", "sim", "deaf"))
        command = [kind, f"{chance.uniform(0, 60):.1f}", *codes.split()]
        on_failure: Literal["", "continue"] = chance.choice(("", "continue"))
        scope: Literal["job", "launch"] = chance.choice(("job", "launch"))
        success: Literal["all", "first"] = "first" if command[1][-1] in "124" else "all"
        jobs.append(
            Job(
                name=f"j{n}",
                replicas=replicas,
                processes=(Process(command, resources=_resources(asked)),),
                on_failure=on_failure,
                scope=scope,
                success=success,
                max_runtime=chance.choice((None, None, 20.0)),
                retries=chance.choice((0, 0, 1)),
                retry_backoff=5.0,
                priority=chance.randrange(1, 6),
                grace=chance.choice((None, 2.0)),
                hold=chance.random() < 0.1,
            )
        )
    when_busy: Literal["queue", "fail"] = "fail" if chance.random() < 0.1 else "queue"
    return Launch(
        name=name,
        jobs=tuple(jobs),
        project=project,
        when_busy=when_busy,
        together=chance.random() < 0.6,
    )


def _resources(asked: dict[str, int]) -> Resources:
    return Resources(**{kind: units for kind, units in asked.items() if units})


def _verb(at_s: float, user: str, target: str, verb: str, *, index: int) -> Wish:
    """Return a verb for one job of a launch, or for the whole launch by its name."""

    def body(answers: dict[str, Answer]) -> Body | None:
        answer = answers.get(target)
        if answer is None or not answer.jobs:
            return None
        if verb == "update":
            return UpdateRequest(targets=answer.jobs, priority=1)
        if verb == "cancel":
            return JobsRequest(targets=(answer.launch,))
        return JobsRequest(targets=(answer.jobs[index],))

    asked = wish(at_s, user, verb, f"{verb} {target}", None)
    asked.body = body
    return asked
