"""Groups of projects lend to their members first, and the guarantee holds at every level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.plan import Preempt
from bastion.scheduler.snapshot import Snapshot
from bastion.spec.where import Where
from quota import NOTHING, Quota
from tests.bastion.scheduler import histories, laws, mutants
from tests.bastion.scheduler.stability import assert_calm, assert_quiet, assert_stable
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of
from tests.rigs.length import at_length

KEPT = (
    *(88, 131, 256, 391, 454, 756, 788, 820, 1_392, 1_859, 2_080, 2_298),
    *(100_196, 100_485),
)
"""Histories in which a job started only to be stopped, was stopped in vain, or plans alternated."""

QUARTERS = {name: {"gpu": 0.25} for name in ("vision", "speech", "web", "ads")}
DEPARTMENTS = {
    "research": 'members = ["vision", "speech"]',
    "product": 'members = ["web", "ads"]',
}


CAPPED: Sequence[dict[str, str]] = (
    {"one": 'members = ["A", "B"]\nceiling = { gpu = 0.5 }'},
    {"one": 'members = ["B", "C"]\nceiling = { gpu = 0.7 }'},
    {
        "one": 'members = ["A", "B"]\nceiling = { gpu = 0.6 }',
        "two": 'members = ["one", "C"]\nceiling = { gpu = 0.8 }',
    },
    {"one": 'members = ["A"]', "two": 'members = ["one", "C"]\nceiling = { gpu = 0.6 }'},
)


def capped_world_of(random: Random, decide: Decide) -> World:
    """Return a small world with a group that has a ceiling below the total."""
    count, last = random.choice((2, 3)), random.choice((0.0, 0.25))
    quota = capped(random, [{"gpu": 4 * count}], last)
    made = World(quota, machines_of(count, gpu=4), decide=decide)
    made.is_grouped = True
    return made


def capped_mixed_world_of(random: Random, decide: Decide) -> World:
    """Return a small world of several types in which groups have ceilings of devices."""
    made = histories.mixed_world_of(random, decide)
    made.quota = capped(random, [dict(tier.units.items()) for tier in made.quota.tiers], 0.25)
    return made


def capped(random: Random, tiers: list[dict[str, int]], last: float) -> Quota:
    """Return a quota of `tiers` in which groups have ceilings and C has the share `last`."""
    types = {resource for tier in tiers for resource in tier}
    shares = {"A": 0.25, "B": 0.25, "C": last}
    return quota_of(
        tiers if len(tiers) > 1 else tiers[0],
        {name: dict.fromkeys(types, share) for name, share in shares.items()},
        groups=random.choice(CAPPED),
        min_runtime_s=random.choice((0, 100)),
        grace_s=10,
        max_grace_s=30,
        plan_after_s=random.choice((0, 60)),
        borrow_slice_s=random.choice((100, 500)),
    )


def world(**groups: str) -> World:
    """Return two machines of eight devices for two departments of two teams, four devices each."""
    written = {name: f"{text}\n{groups.get(name, '')}" for name, text in DEPARTMENTS.items()}
    quota = quota_of({"gpu": 16}, QUARTERS, groups=written, min_runtime_s=0, grace_s=10)
    return World(quota, machines_of(2, gpu=8))


def fill(w: World, project: str, number: int) -> None:
    """Let `number` one-device jobs of `project` run."""
    for i in range(number):
        w.ask(project, f"{project}-{i}", gpu=1)
    w.cycle()
    w.pass_time(1)


def test_what_a_team_leaves_idle_goes_to_its_department_first() -> None:
    """A team of another department asked earlier, and has borrowed less."""
    w = world()
    fill(w, "web", 4)
    fill(w, "ads", 4)
    fill(w, "vision", 4)
    w.ask("ads", "stranger", gpu=4)
    w.pass_time(1)
    w.ask("vision", "sibling", gpu=4)
    w.cycle()
    assert w.runs("sibling")
    assert not w.runs("stranger")


def test_a_department_takes_its_share_back_from_another() -> None:
    """Vision is beyond its own share, but within that of research, which product has borrowed."""
    w = world()
    fill(w, "web", 12)
    fill(w, "vision", 4)
    w.ask("vision", "more", gpu=2)
    w.run(20)
    assert w.runs("more")
    assert (w.units("web"), w.units("vision")) == (10, 6)


def test_a_team_takes_its_share_back_from_its_sibling_first() -> None:
    """Its sibling gives, and then takes back what the department lent to another department."""
    w = world()
    fill(w, "vision", 6)
    fill(w, "web", 10)
    w.ask("speech", "own", gpu=2)
    w.cycle()
    assert sorted(w.preemptions) == [("vision-4", "own"), ("vision-5", "own")]
    w.run(30)
    assert w.runs("own")
    assert (w.units("vision"), w.units("web")) == (6, 8)  # within the share of the department


def test_a_sibling_gives_first_and_another_department_gives_the_rest() -> None:
    """The sibling has borrowed only one device."""
    w = world()
    fill(w, "vision", 5)
    fill(w, "web", 11)
    w.ask("speech", "own", replicas=4, gpu=1)
    w.cycle()
    assert sorted(name.partition("-")[0] for name, _ in w.preemptions) == ["vision", *3 * ["web"]]
    w.run(30)
    assert w.runs("own")
    assert (w.units("vision"), w.units("web")) == (4, 8)


def test_what_stands_on_the_share_of_a_department_is_not_taken_by_another() -> None:
    """Web is within its share; vision uses devices that speech leaves idle, and ads has ended."""
    w = world()
    fill(w, "vision", 8)
    fill(w, "ads", 8)
    w.ask("web", "own", gpu=4)
    w.run(20)
    assert w.runs("own")
    assert (w.units("vision"), w.units("ads")) == (8, 4)


def test_between_equals_inside_a_department_nothing_is_stopped() -> None:
    """Both teams of research are beyond their shares, and the department's share is in use."""
    w = world()
    fill(w, "vision", 8)
    fill(w, "web", 8)
    w.ask("vision", "more", gpu=1)
    w.run(20)
    assert not w.runs("more")
    assert not w.preemptions


def test_a_promise_on_a_department_gives_way_to_a_team_within_its_share() -> None:
    """Vision has a promise on a device of the department; speech asks for its own first."""
    w = world()
    fill(w, "web", 12)
    fill(w, "vision", 4)
    w.ask("vision", "more", gpu=4)
    w.cycle()
    assert w.reason("more") == "Promised"
    w.ask("speech", "own", gpu=4)
    w.run(30)
    assert w.runs("own")
    assert not w.runs("more")


def test_a_promise_on_a_department_keeps_its_place_beside_a_borrower() -> None:
    """A sibling that asks for more than its share waits until the promise's victim stops."""
    shares = {name: {"gpu": 0.25} for name in ("vision", "speech", "web")}
    groups = {"research": 'members = ["vision", "speech"]'}
    quota = quota_of({"gpu": 12}, shares, groups=groups, min_runtime_s=0, grace_s=10)
    w = World(quota, machines_of(3, gpu=4))
    w.ask("web", "guest", replicas=2, gpu=3)
    w.cycle()
    w.pass_time(1)
    w.ask("vision", "more", replicas=3, gpu=2)
    w.cycle()
    w.ask("speech", "beyond", gpu=4)
    w.cycle()
    assert w.preemptions == [("guest", "more")]
    assert w.reason("beyond") == "PlannedForOther"
    w.run(20)
    assert w.runs("more")
    assert w.runs("beyond")
    assert w.preemptions == [("guest", "more")]


def test_what_a_department_does_not_lend_stays_in_it() -> None:
    """Six of its eight devices must stay in it, and one of its teams can have all of them."""
    w = world(research="lend = { gpu = 0.25 }")
    fill(w, "web", 12)
    assert w.units("web") == 10
    fill(w, "vision", 8)
    assert w.units("vision") == 6
    w.run(20)
    assert (w.units("web"), w.units("vision")) == (8, 8)


def test_the_ceiling_of_a_department_is_told_with_its_name() -> None:
    """Vision may hold everything, research only ten devices."""
    w = world(research="ceiling = { gpu = 0.625 }")
    fill(w, "vision", 12)
    assert w.units("vision") == 10
    assert w.reason("vision-9") == "OverCeiling"
    assert "waits for research to free 1 gpu: it holds 10 of 10 gpu" in w.why("vision-9")


def test_a_team_reclaims_below_the_ceiling_of_its_department() -> None:
    """Devices are idle, but its sibling holds all that the department may hold."""
    w = world(research="ceiling = { gpu = 0.5 }")
    fill(w, "vision", 8)
    w.ask("speech", "own", gpu=4)
    w.run(20)
    assert w.runs("own")
    assert (w.units("vision"), w.units("web")) == (4, 0)


def test_a_department_with_more_than_its_teams_keeps_it_from_others() -> None:
    """Research has 12 of 16 and its teams 4 each: 4 go to the teams before product."""
    quota = quota_of(
        {"gpu": 16},
        {"vision": {"gpu": 0.25}, "speech": {"gpu": 0.25}, "web": {"gpu": 0.25}},
        groups={"research": 'members = ["vision", "speech"]\nshare = { gpu = 0.75 }'},
        min_runtime_s=0,
        grace_s=10,
    )
    w = World(quota, machines_of(2, gpu=8))
    fill(w, "web", 16)
    fill(w, "vision", 12)
    w.run(20)
    assert (w.units("web"), w.units("vision")) == (4, 12)
    w.ask("speech", "own", gpu=4)
    w.run(20)
    assert w.runs("own")
    assert (w.units("web"), w.units("vision")) == (4, 8)


def test_a_sibling_beyond_its_own_share_does_not_keep_a_team_from_its_own_lower_priority() -> None:
    """Both ask for more than their shares; a machine is missing. Neither was started."""
    shares = {name: {"gpu": 0.25} for name in ("vision", "speech", "web")}
    groups = {"research": 'members = ["vision", "speech"]\nshare = { gpu = 0.75 }'}
    quota = quota_of({"gpu": 16}, shares, groups=groups, min_runtime_s=0, grace_s=10)
    w = World(quota, machines_of(1, gpu=8))
    w.ask("vision", "later", gpu=5, priority=5)
    w.cycle()
    w.pass_time(1)
    w.ask("speech", "sibling", gpu=5)
    w.ask("vision", "first", gpu=5)
    w.run(20)
    assert w.preemptions == [("later", "first")]
    assert w.runs("first")


def test_a_later_promise_does_not_take_the_place_of_an_earlier_one_on_a_share() -> None:
    """`alpha` gets its promise after `omega`: all promises stand, and none is renewed."""
    shares = {"vision": {"gpu": 0.25}, "speech": {"gpu": 0.5}, "web": {"gpu": 0.25}}
    groups = {"research": 'members = ["vision", "speech"]'}
    quota = quota_of({"gpu": 12}, shares, groups=groups, min_runtime_s=100, grace_s=10)
    w = World(quota, machines_of(2, gpu=4))
    w.ask("vision", "wide", gpu=4)
    w.ask("vision", "low", gpu=2, priority=5)
    w.cycle()
    w.pass_time(50)
    w.ask("speech", "own", gpu=1)
    w.ask("vision", "omega", gpu=3)
    w.cycle()
    w.ask("vision", "alpha", gpu=1)
    w.ask("web", "other", gpu=3)
    w.cycle()
    promises = w.plan.promises
    assert [each.gang for each in promises] == [("omega",), ("other",), ("alpha",)]
    w.pass_time(1)
    w.cycle()
    assert w.plan.promises == promises


def test_idle_capacity_goes_by_department_and_then_by_team() -> None:
    """Two teams of one department together get as much as the only team of another."""
    shares = {"a": {"gpu": 0.125}, "b": {"gpu": 0.125}, "c": {"gpu": 0.25}, "rest": {"gpu": 0.5}}
    groups = {"one": 'members = ["a", "b"]', "two": 'members = ["c"]'}
    w = World(quota_of({"gpu": 16}, shares, groups=groups), machines_of(2, gpu=8))
    for i in range(16):
        for project in "abc":
            w.ask(project, f"{project}-{i:02}", gpu=1)
    w.cycle()
    assert [w.units(each) for each in "abc"] == [4, 4, 8]


def test_three_levels() -> None:
    """A team reclaims from its department, then from its division, then from outside."""
    shares = {name: {"gpu": 0.25} for name in "abcd"}
    groups = {"inner": 'members = ["a", "b"]', "outer": 'members = ["inner", "c"]'}
    quota = quota_of({"gpu": 16}, shares, groups=groups, min_runtime_s=0, grace_s=10)
    w = World(quota, machines_of(2, gpu=8))
    fill(w, "b", 5)
    fill(w, "c", 5)
    fill(w, "d", 6)
    order = []
    for i in range(4):
        w.ask("a", f"a-{i}", gpu=1)
        w.cycle()
        victim, _ = w.preemptions[-1]
        w.end(victim)
        w.cycle()
        assert w.runs(f"a-{i}")
        order.append(victim[0])
    assert order == ["b", "c", "d", "d"]


def test_what_never_borrows_never_stands_on_its_department() -> None:
    """The sibling may take back the department's share, and this job must not be stopped."""
    quota = quota_of(
        {"gpu": 16}, QUARTERS, groups=DEPARTMENTS, options={"vision": "borrow = false"}
    )
    w = World(quota, machines_of(2, gpu=8))
    fill(w, "vision", 5)
    assert w.units("vision") == 4
    assert w.reason("vision-4") == "ShareInUse"


def test_a_victim_of_a_department_is_told_why() -> None:
    """The reason names the job for which it stops, and how much of which share that job gets."""
    w = world()
    fill(w, "web", 12)
    fill(w, "vision", 4)
    w.ask("vision", "more", gpu=2)
    w.cycle()
    stopped = [v for plan in w.turns for v in plan.verdicts.values() if isinstance(v, Preempt)]
    assert stopped
    assert {v.by for v in stopped} == {"more"}


@pytest.mark.parametrize("seed", range(0, 20, 10))
def test_every_plan_keeps_every_law(seed: int) -> None:
    """Every law holds at every cycle of ten random histories with groups."""
    for each in range(seed, seed + 10):
        histories.run(each, laws.LAWS, steps=20, make=histories.grouped_world_of)


@pytest.mark.parametrize(
    "seed",
    [
        *(61, 84, 95, 149, 183, 199, 279, 321, 384, 596, 1_180, 2_133, 2_817, 7_103, 910_290),
        71_446_586,
    ],
)
def test_laws_that_were_once_broken(seed: int) -> None:
    """These histories are kept because a law failed in them."""
    histories.run(seed, laws.LAWS, steps=25, make=histories.grouped_world_of)


@pytest.mark.prove
@given(seed=st.integers(0, 2**32))
@settings(max_examples=at_length(1_000), deadline=None, database=None)
def test_every_plan_keeps_every_law_at_length(seed: int) -> None:
    """Every law holds at every cycle of thousands of histories."""
    histories.run(seed, laws.LAWS, steps=25, make=histories.grouped_world_of)


@pytest.mark.parametrize("seed", [98, 170, 247, 331, 536, 1_949])
def test_no_ceiling_of_a_group_is_exceeded(seed: int) -> None:
    """These histories are kept because a group held too much, or a planned start was lost."""
    histories.run(seed, laws.LAWS, steps=25, make=capped_world_of)


def test_a_promise_that_could_not_be_made_anew_stands() -> None:
    """A cheaper promise would take the share of another: every second cycle, both were lost."""
    others = [law for law in laws.LAWS if law is not laws.victims_are_minimal]
    histories.run(2_054, others, steps=25, make=capped_world_of)


def test_a_promise_counts_on_no_victim_of_a_promise_that_it_breaks() -> None:
    """Its group would exceed the ceiling, since that victim continues; the cycle failed."""
    histories.run(1_817, [laws.ceilings_are_kept], steps=25, make=capped_mixed_world_of)


@pytest.mark.prove
@pytest.mark.parametrize("make", [capped_world_of, capped_mixed_world_of])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=at_length(1_000), deadline=None, database=None)
def test_no_ceiling_of_a_group_is_exceeded_at_length(seed: int, make: histories.Make) -> None:
    """No start takes a group beyond its ceiling, in thousands of histories."""
    histories.run(seed, [laws.ceilings_are_kept], steps=25, make=make)


@pytest.mark.prove
def test_few_histories_below_ceilings_break_a_law() -> None:
    """One in a thousand may, as was measured: a victim too many, or a guarantee a cycle late."""
    failed = 0
    for seed in range(10_000, 11_000):
        try:
            histories.run(seed, laws.LAWS, steps=25, make=capped_world_of)
        except AssertionError:
            failed += 1
    assert failed <= 3


def _after(world: World) -> None:
    assert_calm(world)
    assert_stable(world)
    assert_quiet(world)


@pytest.mark.parametrize("seeds", [range(8), KEPT])
def test_whatever_moves_all_is_at_rest_soon(seeds: Sequence[int]) -> None:
    """No job starts only to be stopped, none is stopped in vain, and a plan stands."""
    for seed in seeds:
        histories.run(seed, (), steps=25, after=_after, make=histories.grouped_world_of)


@pytest.mark.prove
def test_few_histories_are_not_at_rest_soon() -> None:
    """One may remain, as the documented measurements say; never two in seven hundred."""
    failed = 0
    for seed in range(100_000, 100_700):
        try:
            histories.run(seed, (), steps=25, after=_after, make=histories.grouped_world_of)
        except AssertionError:
            failed += 1
    assert failed <= 1


def _flat(quota: Quota) -> Quota:
    projects = {n: replace(p, group="") for n, p in quota.projects.items()}
    return replace(quota, projects=projects, groups={})


def _uncapped(quota: Quota) -> Quota:
    groups = {n: replace(g, ceiling=quota.totals) for n, g in quota.groups.items()}
    return replace(quota, groups=groups)


def _boundless(quota: Quota) -> Quota:
    """Return every group with a share of everything, all of it lent."""
    groups = {
        n: replace(g, nominal=quota.totals, ceiling=quota.totals, kept=NOTHING)
        for n, g in quota.groups.items()
    }
    return replace(quota, groups=groups)


@pytest.mark.parametrize(
    ("change", "law"),
    [
        (_flat, laws.no_guaranteed_victim),
        (_uncapped, laws.ceilings_are_kept),
        (_flat, laws.the_guarantee),
        (_boundless, laws.none_above_its_share_reclaims),
    ],
)
def test_a_scheduler_that_sees_other_groups_is_noticed(
    change: Callable[[Quota], Quota], law: laws.Law
) -> None:
    """One scheduler sees no groups; to another, every group owns everything."""

    def seen(snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, quota=change(snapshot.quota))

    with pytest.raises(AssertionError):
        for seed in range(300):
            histories.run(
                seed, [law], steps=15, inner=mutants.seeing(seen), make=histories.grouped_world_of
            )


def test_what_a_member_gives_outside_counts_for_its_group_until_then() -> None:
    """A running job of `red` gives its room to a job of `blue`, which is not in the group."""
    group = 'members = ["red", "green"]\nceiling = { gpu = 0.5 }'
    shares = {"red": {"gpu": 0.25}, "blue": {"gpu": 0.25}, "green": {"gpu": 0.0}}
    quota = quota_of({"gpu": 24}, shares, groups={"g": group}, min_runtime_s=1e6, plan_after_s=0)
    w = World(quota, machines_of(3, gpu=8))
    for name, gpu, limit in (("a", 8, 1000.0), ("b", 4, 1e6)):
        w.ask("red", name, gpu=gpu, max_runtime_s=limit)
        w.cycle()
        w.pass_time(1)
    w.ask("blue", "c", gpu=8, where=Where(hostnames=(min(w.machines),)))
    w.ask("blue", "d", gpu=4)
    w.cycle()
    w.pass_time(1)
    w.ask("red", "e", gpu=8)
    w.cycle()
    assert not w.runs("e")
    ceiling = "waits for g to free 8 gpu: it holds 12 of 12 gpu, its ceiling"
    assert w.why("e").startswith(ceiling)
