"""A few jobs of two projects on two machines: enough for a world with another subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.requests.result import Result
from bastion.store import ObjectStore
from quota.amounts import Amounts
from tests.simulation.asking import launch, one, verb
from tests.simulation.baton import Baton
from tests.simulation.fates import Calm, Fates
from tests.simulation.invariants import OUTCOMES
from tests.simulation.machines import SimProvider
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.storm import CONFIG, QUOTA
from tests.simulation.world import PER_MACHINE, World

OUTCOME = {
    "long": "succeeded",
    "short": "succeeded",
    "gang": "succeeded",
    "crooked": "failed",
    "unwanted": "cancelled",
    "own": "succeeded",
}
"""The outcome of the job of each launch."""


def wishes() -> list[Wish]:
    """Return everything that users will submit."""
    return [
        launch(0.0, "ann", "long", one(h100=4, runs_s=60.0)),
        launch(1.0, "ann", "short", one(h100=1, runs_s=15.0)),
        launch(3.0, "ben", "unwanted", one(h100=1, runs_s=1e9)),
        launch(5.0, "ann", "crooked", one(h100=1, runs_s=10.0, codes="3")),
        launch(20.0, "cat", "own", one(h100=2, runs_s=25.0)),
        launch(40.0, "ann", "gang", one(h100=3, runs_s=20.0, replicas=2)),
        verb(70.0, "ben", "cancel", "unwanted"),
    ]


def small(
    baton: Baton,
    parts: Parts = SOUND,
    *,
    fates: Fates | None = None,
    through: Callable[[ObjectStore], ObjectStore] = lambda store: store,
    strangers: tuple[str, ...] = (),
    store_skew_s: float = 0.0,
    config: str = CONFIG,
    quota: str = QUOTA,
    machines: int = 2,
    per_machine: Amounts = PER_MACHINE,
    more: Sequence[Wish] = (),
    provider: type[SimProvider] = SimProvider,
) -> World:
    """Return a world of these jobs and those of `more`; these end as programs and users say."""
    world = World(
        baton,
        quota=quota,
        config=config,
        wishes=sorted([*wishes(), *more], key=lambda wish: wish.at_s),
        fates=fates or Calm(),
        parts=parts,
        through=through,
        strangers=strangers,
        store_skew_s=store_skew_s,
        machines=machines,
        per_machine=per_machine,
        provider=provider,
    )
    world.checks.append(lambda: check_outcomes(world, may_be_lost=fates is not None))
    return world


def check_outcomes(world: World, *, may_be_lost: bool) -> None:
    """
    Compare the final records of these jobs with the expected ones.

    Args:
        world: The world of the small scenario.
        may_be_lost: Whether machines die too: three in a row end a job, and a bastion that cannot
            read the quota file at its very start refuses requests.
    """
    refused = {wish.name for wish in world.wishes if _is_refused_for_want_of_quota(wish)}
    found = {}
    for entry in world.bucket.list(layout.RESULTS):
        stored = world.bucket.read(entry.key)
        assert stored is not None
        result = decode(Result, stored.data, key=entry.key)
        found[result.id.rpartition("-")[0]] = str(result.outcome)
    excused = {"lost"} if may_be_lost else set()
    honest = {name: found.get(name, "none") for name in OUTCOME if name not in refused}
    wrong = {name: said for name, said in honest.items() if said not in {OUTCOME[name], *excused}}
    if "cancel unwanted" in refused:
        wrong.pop("unwanted", None)
    if wrong or (refused and not may_be_lost):
        world.baton.fail(OUTCOMES, f"{wrong}")


def _is_refused_for_want_of_quota(wish: Wish) -> bool:
    problems = wish.answer.problems if wish.answer is not None else ()
    return any(problem.startswith("no quota file is in force") for problem in problems)
