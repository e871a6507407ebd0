"""Jobs that wait for others: chains, fans, retries, whole launches, verbs, in any storm."""

from __future__ import annotations

from dataclasses import replace

from bastion.records.requests.answer import Answer
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.requests.request import Body
from bastion.spec import After, Job, Launch
from bastion.spec.after import When
from tests.simulation.asking import one, verb, wish
from tests.simulation.fates import Fates
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.rights import PROJECTS
from tests.simulation.storm import storm
from tests.simulation.world import World


def chains(seed: int, parts: Parts = SOUND, *, fates: Fates | None = None) -> World:
    """Return the scenario in a storm, or with other `fates`."""
    return storm(seed, wishes(), parts, fates=fates)


def wishes() -> list[Wish]:
    """Return everything that users will submit."""
    return [
        _launch(0.0, "ann", "prepare", [one(runs_s=20)]),
        _launch(1.0, "ann", "train", [one(h100=4)], "prepare"),
        _launch(2.0, "ann", "test", [one()], "train"),
        _launch(3.0, "ann", "crooked", [one(codes="3")]),
        _launch(4.0, "ann", "never", [one()], "crooked"),
        _launch(5.0, "ann", "never-2", [one()], "never"),
        _launch(6.0, "ann", "clean", [one()], "crooked", when="failed"),
        _launch(7.0, "ann", "anyway", [one()], "never-2", when="any"),
        _launch(8.0, "ann", "again", [one(codes="1 0", retries=1)]),
        _launch(9.0, "ann", "after-again", [one()], "again"),
        _launch(0.0, "ben", "unwanted", [one(runs_s=500)]),
        _launch(1.0, "ben", "after-unwanted", [one()], "unwanted", when="any"),
        _launch(2.0, "ben", "line", _line(), together=False),
        _launch(3.0, "ben", "whole", [one()], "line", when="any"),
        _launch(4.0, "ben", "gang", [one("a", h100=5), one("b", h100=5)], "whole"),
        verb(60.0, "ben", "cancel", "unwanted"),
        _launch(120.0, "ben", "late", [one()], "line", when="failed"),
        _launch(0.0, "cat", "own", [one(h100=4, runs_s=60)]),
        _launch(5.0, "cat", "own-2", [one(h100=6)], "own"),
    ]


def _line() -> list[Job]:
    """Return three jobs one after the other, of which the last fails, and one beside them."""
    return [
        one("a"),
        replace(one("b"), after=("a",)),
        replace(one("c", codes="5"), after=("b",)),
        replace(one("d"), after=("a", "c:failed")),
    ]


def _launch(
    at_s: float,
    user: str,
    name: str,
    jobs: list[Job],
    target: str = "",
    *,
    when: When = "ok",
    together: bool = True,
) -> Wish:
    """Return a launch; `target` is the name of an earlier one of the same user."""

    def body(answers: dict[str, Answer]) -> Body | None:
        answer = answers.get(target)
        if target and (answer is None or not answer.launch):
            return None
        after = [After(answer.launch, when=when)] if answer is not None else []
        launch = Launch(
            name=name,
            jobs=jobs,
            project=PROJECTS[user],
            together=together,
            after=after,
            notify=("https://hooks.example.com/chains",),
        )
        return LaunchRequest(launch=launch)

    asked = wish(at_s, user, "launch", name, None)
    asked.body = body
    return asked
