"""Jobs that wait for others: chains, fans, retries, launches as a whole, verbs, in any storm."""

from __future__ import annotations

from dataclasses import replace

from bastion.records.request import Answer, Body, JobsRequest, LaunchRequest
from bastion.spec import After, Job, Launch, Process, Resources
from bastion.spec.after import When
from tests.simulation.baton import Baton
from tests.simulation.fates import Fates, Rates, Storm
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.scenario import CONFIG, HARDNESS, QUOTA, USERS
from tests.simulation.world import World


def chains(seed: int, parts: Parts = SOUND, *, fates: Fates | None = None) -> World:
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
        _wish(0.0, "ann", "prepare", _one(runs_s=20)),
        _wish(1.0, "ann", "train", _one(h100=4), "prepare"),
        _wish(2.0, "ann", "test", _one(), "train"),
        _wish(3.0, "ann", "crooked", _one(codes="3")),
        _wish(4.0, "ann", "never", _one(), "crooked"),
        _wish(5.0, "ann", "never-2", _one(), "never"),
        _wish(6.0, "ann", "clean", _one(), "crooked", when="failed"),
        _wish(7.0, "ann", "anyway", _one(), "never-2", when="any"),
        _wish(8.0, "ann", "again", _one(codes="1 0", retries=1)),
        _wish(9.0, "ann", "after-again", _one(), "again"),
        _wish(0.0, "ben", "unwanted", _one(runs_s=500)),
        _wish(1.0, "ben", "after-unwanted", _one(), "unwanted", when="any"),
        _wish(2.0, "ben", "line", _line(), together=False),
        _wish(3.0, "ben", "whole", _one(), "line", when="any"),
        _wish(4.0, "ben", "gang", [_job("a", h100=5), _job("b", h100=5)], "whole"),
        _cancel(60.0, "ben", "unwanted"),
        _wish(120.0, "ben", "late", _one(), "line", when="failed"),
        _wish(0.0, "cat", "own", _one(h100=4, runs_s=60), project="red"),
        _wish(5.0, "cat", "own-2", _one(h100=6), "own", project="red"),
    ]


def _line() -> list[Job]:
    """Three jobs one after the other, of which the last fails, and one beside them."""
    first, second, last = _job("a"), _job("b"), _job("c", codes="5")
    return [
        first,
        replace(second, after=("a",)),
        replace(last, after=("b",)),
        replace(_job("d"), after=("a", "c:failed")),
    ]


def _one(**job: object) -> list[Job]:
    return [_job("main", **job)]


def _job(
    name: str, *, h100: int = 1, runs_s: float = 10.0, codes: str = "0", retries: int = 0
) -> Job:
    process = Process(["sim", str(runs_s), *codes.split()], resources=Resources(h100=h100))
    return Job(name=name, processes=(process,), retries=retries, retry_backoff=5.0)


def _wish(
    at_s: float,
    user: str,
    name: str,
    jobs: list[Job],
    target: str = "",
    *,
    when: When = "ok",
    together: bool = True,
    project: str = "blue",
) -> Wish:
    """A launch; `target` is the name of an earlier one of the same user."""

    def body(answers: dict[str, Answer]) -> Body | None:
        answer = answers.get(target)
        if target and (answer is None or not answer.launch):
            return None
        after = [After(answer.launch, when=when)] if answer is not None else []
        launch = Launch(
            name=name,
            jobs=jobs,
            project=project,
            together=together,
            after=after,
            notify=("https://hooks.example.com/chains",),
        )
        return LaunchRequest(launch=launch)

    return Wish(at_s=at_s, user=user, project=project, verb="launch", name=name, body=body)


def _cancel(at_s: float, user: str, target: str) -> Wish:
    def body(answers: dict[str, Answer]) -> Body | None:
        answer = answers.get(target)
        return JobsRequest(targets=answer.jobs) if answer is not None and answer.jobs else None

    name = f"cancel {target}"
    return Wish(at_s=at_s, user=user, project="blue", verb="cancel", name=name, body=body)
