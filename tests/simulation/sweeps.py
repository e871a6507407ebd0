"""Arrays in any storm: failures, retries, preemption, a part that is cancelled, holds, limits."""

from __future__ import annotations

from bastion.records.request import Answer, Body, JobsRequest, LaunchRequest
from bastion.spec import Array, Job, Launch, Process, Resources
from tests.simulation.baton import Baton
from tests.simulation.fates import Fates, Rates, Storm
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.scenario import CONFIG, HARDNESS, QUOTA, USERS
from tests.simulation.world import World


def sweeps(seed: int, parts: Parts = SOUND, *, fates: Fates | None = None) -> World:
    """The scenario in a storm, or with other `fates`."""
    baton = Baton(seed)
    rates = Rates().times(baton.chance.choice(HARDNESS))
    return World(
        baton,
        quota=QUOTA,
        config=CONFIG,
        wishes=wishes(),
        fates=fates or Storm(baton.chance, rates, spared=USERS),
        bastions=baton.chance.choice((1, 2)),
        has_lease=baton.chance.random() < 0.8,
        parts=parts,
    )


def wishes() -> list[Wish]:
    """Everything that users will ask."""
    return [
        _launch(0.0, "ann", "wide", "0-23", h100=1, runs_s=25.0),
        _launch(5.0, "ann", "narrow", "0-9%2", h100=1, runs_s=8.0, codes="1 0", retries=1),
        _launch(6.0, "ann", "crooked", "0-3,10-11", h100=1, runs_s=5.0, codes="3"),
        _launch(8.0, "ben", "pairs", "0-2", h100=2, runs_s=10.0, replicas=2),
        _launch(9.0, "ben", "unwanted", "0-4999%3", h100=1, runs_s=20.0),
        _launch(10.0, "ben", "patient", "0-5", h100=1, runs_s=5.0, hold=True),
        _launch(12.0, "ben", "brittle", "0-99%2", h100=1, runs_s=9.0, codes="4", scope="launch"),
        _verb(20.0, "ann", "wide", "cancel", ".3-5,18-20"),
        _verb(45.0, "ben", "patient", "release", ".0-2"),
        _launch(50.0, "cat", "own", "0-5", h100=1, runs_s=15.0, project="red"),
        _verb(70.0, "ben", "unwanted", "cancel", ".100-4999"),
        _verb(90.0, "ben", "unwanted", "cancel", ""),
        _verb(110.0, "ben", "patient", "release", ""),
    ]


def _launch(
    at_s: float,
    user: str,
    name: str,
    tasks: str,
    *,
    h100: int,
    runs_s: float,
    codes: str = "0",
    project: str = "blue",
    **job: object,
) -> Wish:
    process = Process(["sim", str(runs_s), *codes.split()], resources=Resources(h100=h100))
    one = Job(processes=(process,), retry_backoff=5.0, **job)  # type: ignore[arg-type]
    launch = Launch(name=name, jobs=(one,), project=project, array=Array(tasks))
    body = LaunchRequest(launch=launch)
    return Wish(
        at_s=at_s, user=user, project=project, verb="launch", name=name, body=lambda _: body
    )


def _verb(at_s: float, user: str, target: str, verb: str, tasks: str) -> Wish:
    def body(answers: dict[str, Answer]) -> Body | None:
        answer = answers.get(target)
        if answer is None or not answer.jobs:
            return None
        return JobsRequest(targets=(f"{answer.launch}{tasks}",))

    name = f"{verb} {target}{tasks}"
    return Wish(at_s=at_s, user=user, project="blue", verb=verb, name=name, body=body)
