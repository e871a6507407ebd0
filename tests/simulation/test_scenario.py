"""The end-to-end scenario under crashes, lost answers, late writes and dying machines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bastion.job import OutcomeKind
from bastion.records.keys import layout
from bastion.records.root import decode_root
from bastion.scheduler.runs import MAX_LENGTHS
from tests.simulation.chains import chains
from tests.simulation.fates import Calm, Choice, Fate
from tests.simulation.final_records import OTHERS, PORTION, PROVE, STORMS, results
from tests.simulation.scenario import JOBS, calm, comings, duel, slices, spoilt, stormy
from tests.simulation.watched import watched
from tests.simulation.wild import wild
from tests.simulation.world import World


def recorded_in_root(world: World) -> Counter[str]:
    """Return the number of recorded runs of each kind in root at the end."""
    stored = world.bucket.read(layout.ROOT)
    assert stored is not None
    return Counter(
        {kind: len(each.lengths) for kind, each in decode_root(stored.data).runs.items()}
    )


def recorded_in_results(world: World) -> Counter[str]:
    """Return how many final records of each kind are of jobs that succeeded the first time."""
    found: Counter[str] = Counter()
    for result in results(world).values():
        last = result.past[-1] if result.past else None
        if last is None or last.started_at is None or last.kind is not OutcomeKind.SUCCEEDED:
            continue
        if last.number == 1:
            name = re.sub(r"\d+", "#", result.name)
            found[f"{result.project}/{result.user}/{name}"] += 1
    return Counter({kind: min(n, MAX_LENGTHS) for kind, n in found.items()})


def test_without_faults_every_job_ends_as_it_should() -> None:
    """Each of the twenty jobs has the outcome that its program and its users determine."""
    world = calm(0)
    world.run()
    outcomes = {name: result.outcome for name, result in results(world).items()}
    expected = {
        "crooked": "failed",
        "absent": "setup_failed",
        "broken": "failed",
        "endless": "timed_out",
        "unwanted": "cancelled",
        "unwanted-2": "cancelled",
    }
    assert len(outcomes) == JOBS
    assert outcomes == {name: expected.get(name, "succeeded") for name in outcomes}


def test_without_faults_borrowers_are_preempted_and_resume() -> None:
    """Red's jobs reclaim what blue borrowed; the victims run again; the gang spans machines."""
    world = calm(0)
    world.run()
    found = results(world)
    preempted = [name for name, result in found.items() if result.preemptions]
    assert preempted
    assert all(name.startswith(("first", "borrower", "crooked", "again")) for name in preempted)
    assert all(result.attempts == 1 for name, result in found.items() if name.startswith("own"))
    gang = found["gang"].past[-1].machines
    assert len({machine for replica in gang for machine in replica}) == 2


@pytest.mark.parametrize("seed", range(STORMS))
def test_invariants_hold_in_storms(seed: int) -> None:
    """
    Whatever crashes, stalls, dies or answers late, no invariant breaks and every job ends.

    Every run that counts for estimates is recorded once.
    """
    world = stormy(seed)
    world.run()
    assert recorded_in_root(world) == recorded_in_results(world)


@pytest.mark.parametrize("seed", range(STORMS // 2))
def test_invariants_hold_in_the_wild(seed: int) -> None:
    """The same holds for random launches, verbs and quota edits."""
    wild(seed).run()


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_without_a_lease(seed: int) -> None:
    """Three bastions that take the lease from each other break nothing: safety needs no lease."""
    duel(seed).run()


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_while_machines_come_and_go(seed: int) -> None:
    """A bastion that resumes among machines that it does not know deletes none of them."""
    comings(seed).run()


@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.CRASH_AFTER])
@pytest.mark.parametrize("nth", range(3, 600, 199))
def test_a_leader_may_die_at_some_operations(nth: int, fate: Fate) -> None:
    """A leader that dies once, right before or after one of its writes, leaves nothing undone."""
    calm(1, fates=Choice("north", "", "", fate, nth=nth)).run()


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_for_slices(seed: int) -> None:
    """A slice is whole or stopped, whichever of its hosts dies."""
    slices(seed).run()


def test_without_faults_jobs_follow_each_other() -> None:
    """Every job that waits for others ends according to their outcomes."""
    world = chains(0, fates=Calm())
    world.run()
    outcomes = {name: result.outcome for name, result in results(world).items()}
    expected = {
        "crooked": "failed",
        "line-c": "failed",
        "never": "cancelled",
        "never-2": "cancelled",
        "unwanted": "cancelled",
    }
    assert len(outcomes) == 22
    assert outcomes == {name: expected.get(name, "succeeded") for name in outcomes}


@pytest.mark.parametrize("seed", [*range(OTHERS), 57008097])
def test_invariants_hold_for_chains(seed: int) -> None:
    """No job starts before its targets have ended, whatever crashes at the moment of an end."""
    chains(seed).run()


@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.CRASH_AFTER])
@pytest.mark.parametrize("nth", range(20, 420, 200))
def test_a_leader_of_chains_may_die_at_some_operations(nth: int, fate: Fate) -> None:
    """The end of a target that it committed is known to the next leader."""
    chains(1, fates=Choice("north", "", "", fate, nth=nth)).run()


def test_without_faults_watched_jobs_end_as_they_should() -> None:
    """Hangs fail, held jobs keep their failure, new limits apply, clean-ups change no outcome."""
    world = watched(0, fates=Calm())
    world.run()
    found = results(world)
    outcomes = {name: result.outcome for name, result in found.items()}
    assert outcomes == {
        **dict.fromkeys(("hung", "hung-twice", "kept", "released", "cancelled"), "failed"),
        **dict.fromkeys(("untidy", "gang", "borrower"), "failed"),
        **dict.fromkeys(("slow", "tidy", "longer", "own"), "succeeded"),
        "shorter": "timed_out",
    }
    assert found["hung"].text == "no output for 20 s; stacks are in its log"
    assert (found["hung-twice"].attempts, found["kept"].attempts) == (2, 1)
    assert found["tidy"].text == "exited with code 0; its on_end exited with code 4"
    assert found["borrower"].ended_at < found["own"].ended_at


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_for_watched_jobs(seed: int) -> None:
    """A job that is held, cleaned up or given another limit frees its devices once, and ends."""
    watched(seed).run()


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, PROVE // 4, PORTION))
def test_invariants_hold_for_many_watched_jobs(first: int) -> None:
    """The same holds for many storms over jobs that hang, are held or clean up."""
    for seed in range(first, first + PORTION):
        watched(seed).run()


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, PROVE // 4, PORTION))
def test_invariants_hold_for_many_chains(first: int) -> None:
    """The same holds for many storms over jobs that wait for others."""
    for seed in range(first, first + PORTION):
        chains(seed).run()


@pytest.mark.parametrize("seed", range(OTHERS))
def test_one_bad_object_harms_only_itself(seed: int) -> None:
    """Unreadable registers, instructions, bells, specs and segments break no invariant."""
    spoilt(seed).run()


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, PROVE, PORTION))
def test_invariants_hold_in_many_storms(first: int) -> None:
    """The same holds for many seeds."""
    for seed in range(first, first + PORTION):
        stormy(seed).run()


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, PROVE // 4, PORTION))
def test_invariants_hold_in_many_duels(first: int) -> None:
    """The same holds for many duels without a lease, and many worlds where machines come and go."""
    for seed in range(first, first + PORTION):
        duel(seed).run()
        comings(seed).run()


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, PROVE // 2, PORTION))
def test_invariants_hold_in_many_wilds(first: int) -> None:
    """The same holds for many random workloads, storms over slices, and spoilt objects."""
    for seed in range(first, first + PORTION):
        wild(seed).run()
        slices(seed).run()
        spoilt(seed).run()


@pytest.mark.prove
@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.CRASH_AFTER])
@pytest.mark.parametrize(
    ("load", "first"),
    [(calm, n) for n in range(1, 1001, 50)] + [(chains, n) for n in range(1, 501, 50)],
)
def test_a_leader_may_die_at_any_operation(
    load: Callable[..., World], first: int, fate: Fate
) -> None:
    """
    The leader crashes between any two of its first 1,000 operations; of chains, 500.

    A crash after one operation is a crash before the next, so every other one is enough.
    """
    for nth in range(first, first + 50, 2):
        load(1, fates=Choice("north", "", "", fate, nth=nth)).run()


@pytest.mark.parametrize("world", ["stormy", "hostile"])
def test_a_seed_replays_in_every_process(world: str) -> None:
    """The order of sets and hashes, which differs between processes, has no influence."""
    digests = set()
    for hash_seed in ("1", "2", "3"):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--world", world, "--seed", "2"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(ran.stdout.split("digest ")[1])
    assert len(digests) == 1
