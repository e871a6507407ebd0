"""Jobs that hang, that are kept to be looked at, that clean up, and that get another limit."""

from __future__ import annotations

from bastion.records.request import Answer, Body, JobsRequest, LaunchRequest, UpdateRequest
from bastion.spec import Job, Launch, Process, Resources
from tests.simulation.baton import Baton
from tests.simulation.fates import Fates, Rates, Storm
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.scenario import CONFIG, HARDNESS, QUOTA, USERS
from tests.simulation.world import World

FOR_EVER_S = 1e9


def watched(seed: int, parts: Parts = SOUND, *, fates: Fates | None = None) -> World:
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
    """Everything that users will ask; `own` reclaims what the kept ones of blue have borrowed."""
    asked = [
        _launch(0.0, "ann", "hung", runs_s=FOR_EVER_S, idle_timeout=20.0),
        _launch(1.0, "ann", "hung-twice", runs_s=FOR_EVER_S, idle_timeout=15.0, retries=1),
        _launch(2.0, "ann", "slow", runs_s=90.0, idle_timeout=25.0, on_idle="report"),
        _launch(3.0, "ann", "kept", codes="3", hold_on_failure=60.0),
        _launch(4.0, "ann", "released", codes="3", hold_on_failure=900.0),
        _launch(5.0, "ann", "cancelled", codes="3", hold_on_failure=900.0),
        _launch(6.0, "ann", "tidy", runs_s=20.0, on_end=("sim", "3", "4")),
        _launch(7.0, "ann", "untidy", codes="2", on_end=("deaf", "1e9"), on_end_timeout=8.0),
        _launch(8.0, "ben", "longer", runs_s=70.0, max_runtime=40.0),
        _launch(9.0, "ben", "shorter", runs_s=FOR_EVER_S, max_runtime=300.0),
        _launch(60.0, "ben", "gang", h100=5, replicas=2, codes="7", hold_on_failure=30.0),
        _launch(80.0, "ben", "borrower", h100=6, replicas=2, codes="5", hold_on_failure=700.0),
        _launch(150.0, "cat", "own", project="red", h100=6, runs_s=30.0),
        _change(25.0, "ben", "longer", "update", max_runtime_s=400.0),
        _change(30.0, "ben", "shorter", "update", max_runtime_s=60.0),
        _change(70.0, "ann", "released", "release"),
        _change(75.0, "ann", "cancelled", "cancel"),
        _change(400.0, "ben", "borrower", "release"),
    ]
    return sorted(asked, key=lambda wish: wish.at_s)


def _launch(
    at_s: float,
    user: str,
    name: str,
    *,
    project: str = "blue",
    h100: int = 1,
    runs_s: float = 10.0,
    codes: str = "0",
    **fields: object,
) -> Wish:
    process = Process(["sim", str(runs_s), *codes.split()], resources=Resources(h100=h100))
    job = Job(name="main", processes=(process,), retry_backoff=5.0, **fields)
    body = LaunchRequest(launch=Launch(name=name, jobs=(job,), project=project))
    return Wish(
        at_s=at_s, user=user, project=project, verb="launch", name=name, body=lambda _: body
    )


def _change(at_s: float, user: str, target: str, verb: str, **fields: float) -> Wish:
    def body(answers: dict[str, Answer]) -> Body | None:
        answer = answers.get(target)
        if answer is None or not answer.jobs:
            return None
        if fields:
            return UpdateRequest(targets=answer.jobs, **fields)
        return JobsRequest(targets=answer.jobs)

    name = f"{verb} {target}"
    return Wish(at_s=at_s, user=user, project="blue", verb=verb, name=name, body=body)
