"""Every plan keeps the laws on random histories; every law detects a scheduler that breaks it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Admit, Plan
from bastion.scheduler.snapshot import Snapshot
from tests.bastion.scheduler import histories, laws, mutants
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of
from tests.rigs.length import at_length

_T = TypeVar("_T")

QUICK = settings(max_examples=15, deadline=None, database=None, derandomize=True)
LONG = settings(max_examples=at_length(1_000), deadline=None, database=None)
"""More than ten thousand over the three kinds of worlds."""
SEEDS = st.integers(0, 2**32)


def law(name: str) -> laws.Law:
    """Return the law with that name."""
    found: laws.Law = getattr(laws, name)
    return found


WORLDS = pytest.mark.parametrize("make", histories.WORLDS)


@WORLDS
@pytest.mark.parametrize("seed", range(0, 20, 10))
def test_every_plan_keeps_every_law(seed: int, make: histories.Make) -> None:
    """Every law holds at every cycle of ten random histories; `prove` draws new seeds."""
    for each in range(seed, seed + 10):
        histories.run(each, laws.LAWS, steps=20, make=make)


def test_the_guarantee_holds_where_processors_are_short() -> None:
    """B-19-9 waits behind a gang of its project that has waited long; its promise came too late."""
    histories.run(6_457, laws.LAWS, steps=20, make=histories.mixed_world_of)


@pytest.mark.parametrize(
    ("seed", "make"),
    [
        *(
            (seed, histories.world_of)
            for seed in (
                *(6_176, 7_183, 7_222, 100_793, 200_140, 300_482, 301_514),
                *(301_626, 301_805, 301_890, 701_499, 3_000_696, 220_963, 400_377, 402_224),
                *(500_073, 50_507, 500_102, 1_081_622_282, 4_051_301_074),
                *(1_307_773_332, 399_395_370, 3_308_747_154, 2_225_292_321, 3_646_406_601),
                *(1_771_366_539, 272, 32_464, 212, 836),
            )
        ),
        *(
            (seed, histories.mixed_world_of)
            for seed in (
                *(110, 2_094, 7_136, 100_264, 100_879, 101_645, 200_640),
                *(309_403, 350_912, 351_132, 351_834, 4_000_277, 51_000_674, 1_830_368),
                *(77_023, 77_037, 1_524_218_388, 2_122_405_546, 2_551_239_484, 1_321_399_826),
                *(8_844_165, 2_119, 3_569, 1_147_503_693, 85_800),
            )
        ),
        *(
            (seed, histories.wide_world_of)
            for seed in (
                *(1_022, 1_408, 1_464, 166_746, 220_632, 707_692_981, 19_300_922, 443, 187),
                *(157_481, 7_625, 950_042, 950_119),
            )
        ),
        (21_069, histories.wide_world_of),
        *(
            (seed, histories.grouped_world_of)
            for seed in (
                *(29_391, 90_001, 544_169_062, 3_620_140_258, 1_125_212_836, 3_742_654_890),
                *(1_494_152_596, 1_702_890_855, 486_936_749, 700_944_464, 3_376_804_724),
                *(544_264_667, 3_328_161_954, 1_773, 22_149, 22_391, 23_395, 23_681, 20_551),
                *(25_349, 50_290, 5_436, 25_900, 40_003, 40_213, 40_566, 70_116, 41_713),
                4_230_935_562,
            )
        ),
    ],
)
def test_laws_that_were_once_broken(seed: int, make: histories.Make) -> None:
    """These histories are kept because a law failed in them."""
    histories.run(seed, laws.LAWS, steps=25, make=make)


def test_what_was_rotated_for_a_plan_goes_on_once_its_gang_is_promised_a_place() -> None:
    """B-19-13 gets its share back in the cycle in which two gangs are rotated for its plan."""
    histories.run(110, laws.LAWS, steps=40, make=histories.mixed_world_of)


def test_a_rotation_for_nothing_is_noticed() -> None:
    """The law fails if the plan omits what it planned."""

    def planless(snapshot: Snapshot, now: float, plan: Plan) -> None:
        laws.a_rotation_is_of_use(snapshot, now, replace(plan, planned=()))

    with pytest.raises(AssertionError, match="is rotated"):
        for seed in range(100):
            histories.run(seed, [planless], steps=40, make=histories.mixed_world_of)


@pytest.mark.parametrize("seed", [2_932, 77_010, 88_854, 5_651_168, 4_281_889_382, 9_688_487])
def test_told_starts_that_were_once_put_off(seed: int) -> None:
    """These streams are kept because an announced start was postponed in them, or devices idled."""
    told = [*laws.LAWS, laws.told_starts_are_kept()]
    histories.run(seed, told, steps=60, make=histories.stream_world_of)


@pytest.mark.prove
@WORLDS
@given(seed=SEEDS)
@LONG
def test_every_plan_keeps_every_law_at_length(seed: int, make: histories.Make) -> None:
    """Every law holds at every cycle of ten thousand histories of all kinds."""
    histories.run(seed, laws.LAWS, steps=25, make=make)


@pytest.mark.parametrize("name", sorted(mutants.MUTANTS))
def test_a_broken_scheduler_is_noticed(name: str) -> None:
    """The law that targets it fails on some early seed."""
    inner, broken = mutants.MUTANTS[name]
    for seed, make in product(range(300), histories.WORLDS):
        try:
            histories.run(seed, [law(broken)], steps=12, inner=inner, make=make)
        except AssertionError:
            return
    pytest.fail(f"{broken} never noticed {name}")


def assert_deadlines_kept(world: World, known: dict[tuple[str, ...], float]) -> None:
    """A standing promise keeps its deadline."""
    for promise in world.plan.promises:
        if known.setdefault(promise.gang, promise.deadline) != promise.deadline:
            raise AssertionError(f"{promise.gang}: the deadline moved")


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_promise_keeps_its_deadline(*, is_broken: bool) -> None:
    """The deadline stands as long as nothing is lost; a scheduler that postpones it is detected."""
    inner = mutants.postpones if is_broken else decide
    moved = False
    for seed in range(30):
        world = World(
            histories.world_of(Random(seed), decide).quota,
            machines_of(2, gpu=8),
            decide=inner,
        )
        world.quota = quota_of({"gpu": 16}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}})
        world.ask("B", "b", replicas=2, gpu=8)
        world.cycle()
        world.ask("A", "a", gpu=8)
        known: dict[tuple[str, ...], float] = {}
        for _ in range(5):
            world.cycle()
            try:
                assert_deadlines_kept(world, known)
            except AssertionError:
                moved = True
            world.pass_time(7)
    assert moved == is_broken


def shuffled(random: Random, snapshot: Snapshot) -> Snapshot:
    """Return the same snapshot with its mappings in another order."""

    def mix(mapping: dict[str, _T]) -> dict[str, _T]:
        names = sorted(mapping)
        random.shuffle(names)
        return {name: mapping[name] for name in names}

    return replace(
        snapshot,
        jobs=mix(dict(snapshot.jobs)),
        machines=mix(dict(snapshot.machines)),
        pools=mix(dict(snapshot.pools)),
    )


def assert_deterministic(world: World, inner: Decide = decide) -> None:
    """The order of mappings does not matter, not even for the order of the output."""
    snapshot = world.snapshot()
    one = inner(shuffled(Random(1), snapshot), world.now)
    two = inner(shuffled(Random(2), snapshot), world.now)
    assert one == two
    assert list(one.verdicts) == list(two.verdicts)


@WORLDS
@given(seed=SEEDS)
@QUICK
def test_the_order_of_mappings_does_not_matter(seed: int, make: histories.Make) -> None:
    """Equal snapshots give equal plans."""
    in_any_order(seed, make)


@pytest.mark.prove
@WORLDS
@given(seed=SEEDS)
@settings(LONG, max_examples=at_length(350))
def test_the_order_of_mappings_does_not_matter_at_length(seed: int, make: histories.Make) -> None:
    """The same holds for thousands of histories."""
    in_any_order(seed, make)


def in_any_order(seed: int, make: histories.Make) -> None:
    """Play one history with its mappings in another order at every cycle."""
    random = Random(seed)
    world = make(random, decide)
    for _ in range(8):
        histories.step(random, world)
        histories.step(random, world)
        assert_deterministic(world)
        world.cycle()


def test_a_scheduler_that_depends_on_order_is_noticed() -> None:
    """A scheduler that treats the first job it sees differently is not deterministic."""
    with pytest.raises(AssertionError):
        for seed in range(50):
            random = Random(seed)
            world = histories.world_of(random, decide)
            for _ in range(8):
                histories.step(random, world)
                assert_deterministic(world, mutants.depends_on_order)


def preemptions_late(seed: int, make: histories.Make) -> int:
    """Return how many jobs are stopped in a world that was left alone for an hour."""
    world = histories.run(seed, (), steps=10, make=make)
    world.quota = replace(world.quota, scheduler=replace(world.quota.scheduler, plan_after_s=1e9))
    world.ends.clear()
    for _ in range(60):
        world.pass_time(60)
        world.cycle()
    settled = len(world.preemptions)
    for _ in range(20):
        world.pass_time(60)
        world.cycle()
    return len(world.preemptions) - settled


@WORLDS
@given(seed=SEEDS)
@settings(QUICK, max_examples=6)
def test_when_nothing_more_arrives_preemption_comes_to_an_end(
    seed: int, make: histories.Make
) -> None:
    """Left alone, a world settles: a victim that waits again causes nothing further."""
    assert not preemptions_late(seed, make)


@pytest.mark.prove
@WORLDS
@given(seed=SEEDS)
@settings(LONG, max_examples=at_length(350))
def test_preemption_comes_to_an_end_at_length(seed: int, make: histories.Make) -> None:
    """The same holds for two thousand histories of all kinds."""
    assert not preemptions_late(seed, make)


def left_over(seed: int, make: histories.Make, inner: Decide = decide) -> list[str]:
    """Return jobs that would start alone, and still wait although none has arrived for hours."""
    world = histories.run(seed, (), steps=10, inner=inner, make=make)
    for name, machine in world.machines.items():
        world.machines[name] = replace(machine, cordoned="", bad_devices={})
    world.ends = dict.fromkeys(world.jobs, 60.0)
    for _ in range(2 * len(world.jobs) + 20):
        world.pass_time(60)
        world.cycle()
    found = []
    for name, job in sorted(world.jobs.items()):
        alone = {each.id: each for each in laws.gang_of(world.snapshot(), name)}
        snapshot = replace(world.snapshot(), jobs=alone, promises=(), planned=())
        if job.is_admitted or isinstance(decide(snapshot, world.now).verdicts[name], Admit):
            found.append(name)
    return found


@WORLDS
@given(seed=SEEDS)
@QUICK
def test_a_job_that_could_run_alone_runs_in_the_end(seed: int, make: histories.Make) -> None:
    """Capacity that others leave permanently is used: no job starves once submissions stop."""
    assert not left_over(seed, make)


@pytest.mark.prove
@WORLDS
@given(seed=SEEDS)
@LONG
def test_no_job_starves_at_length(seed: int, make: histories.Make) -> None:
    """The same holds for ten thousand histories."""
    assert not left_over(seed, make)


def test_a_scheduler_that_starves_a_job_is_noticed() -> None:
    """A scheduler that keeps devices for a gang that never starts leaves other jobs waiting."""
    assert any(left_over(seed, histories.world_of, mutants.starves) for seed in range(20))
