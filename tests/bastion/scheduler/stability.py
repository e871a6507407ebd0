"""What a stable plan must show; `test_stability` and `test_groups` check it in histories."""

from __future__ import annotations

from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Plan, Preempt
from bastion.scheduler.reasons.reason import Reclaimed, Rotated
from quota.ledger import apart
from tests.bastion.scheduler.byhand import placed
from tests.bastion.scheduler.laws import hosts
from tests.bastion.scheduler.world import Decide, World


def moves(plan: Plan) -> set[str]:
    """Return the jobs that a plan starts or stops."""
    return {n for n, v in plan.verdicts.items() if isinstance(v, Admit | Preempt)}


def assert_stable(world: World, inner: Decide = decide) -> None:
    """The same state decided again moves nothing, and no further job will be stopped."""
    again = inner(world.snapshot(), world.now)
    assert not moves(again)
    assert not _to_stop(world, again) - _to_stop(world, world.plan)


def _to_stop(world: World, plan: Plan) -> set[str]:
    """Return the running jobs that must end for a promise."""
    named = {name for promise in plan.promises for name, _ in promise.victims}
    return {name for name in named if name in world.jobs and world.runs(name)}


def assert_quiet(world: World, inner: Decide = decide) -> None:
    """
    A victim of another project that waits again has no job of another project stopped.

    In its own project it may outrank lower priority, as if it had just arrived; that comes to an
    end. So does what it takes back for its group from a project further away than its preemptor.
    """
    stopped = {
        name: verdict.by
        for plan in world.turns
        for name, verdict in plan.verdicts.items()
        if isinstance(verdict, Preempt) and isinstance(verdict.reason, Reclaimed | Rotated)
    }
    if not stopped:
        return
    twin = world.copy()
    for name in stopped:
        twin.requeue(name)
    again = inner(twin.snapshot(), twin.now)
    stops = [(n, v.by) for n, v in again.verdicts.items() if isinstance(v, Preempt)]
    stops += [(n, each.gang[0]) for each in again.promises for n, _ in each.victims if twin.runs(n)]

    def distance(name: str, other: str) -> int:
        return len(apart(world.quota, twin.jobs[name].project, twin.jobs[other].project))

    for name, by in stops:
        for victim in stopped.keys() & {by, *twin.jobs[by].gang}:
            far = distance(victim, name)
            assert far == 0 or far > distance(victim, stopped[victim])


def assert_calm(world: World) -> None:
    """
    Everything comes to rest soon; no job starts only to be stopped, and none is stopped in vain.

    Three turns are enough, except for a rare chain of two successive preemptions. One more turn
    moves nothing, which tells the service that everything is at rest.
    """
    assert len(world.turns) <= 5
    started: set[str] = set()
    for plan in world.turns:
        stopped = {n for n, v in plan.verdicts.items() if isinstance(v, Preempt)}
        assert not started & stopped
        started |= {n for n, v in plan.verdicts.items() if isinstance(v, Admit)}
    at_rest = {each.gang[0] for each in world.plan.promises} | started
    at_rest |= {each.gang[0] for each in world.plan.planned}
    kept = [each.placements for each in world.plan.promises]
    for plan in world.turns:
        for name, verdict in plan.verdicts.items():
            if isinstance(verdict, Preempt) and verdict.by and verdict.by not in at_rest:
                left = hosts([placed(world.jobs[name])])
                assert any(hosts(placements) & left for placements in kept), (name, verdict.by)
