"""Every law holds when admins and users use all keys that the scheduler reads, together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Plan
from bastion.scheduler.snapshot import Snapshot
from tests.bastion.scheduler import histories, laws
from tests.bastion.scheduler.features import featured
from tests.rigs.length import at_length

WORLDS = pytest.mark.parametrize("make", [*histories.WORLDS, histories.grouped_world_of])


@WORLDS
def test_every_law_holds_with_all_keys(make: histories.Make) -> None:
    """Ten random histories of each kind are checked; `prove` draws more."""
    for seed in range(10):
        histories.run(seed, laws.LAWS, steps=20, make=featured(make))


@pytest.mark.parametrize(
    ("seed", "make"),
    [
        (43, histories.wide_world_of),
        (180, histories.world_of),
        (6023, histories.world_of),
        (171, histories.stream_world_of),
        (490, histories.stream_world_of),
    ],
)
def test_laws_that_were_once_broken(seed: int, make: histories.Make) -> None:
    """These histories are kept because a law failed in them, or a cycle raised an error."""
    histories.run(seed, laws.LAWS, steps=25, make=featured(make))


@pytest.mark.prove
@WORLDS
@given(seed=st.integers(0, 2**32))
@settings(max_examples=at_length(500), deadline=None, database=None)
def test_every_law_holds_with_all_keys_at_length(seed: int, make: histories.Make) -> None:
    """The same holds for thousands of histories."""
    histories.run(seed, laws.LAWS, steps=25, make=featured(make))


def _closing(snapshot: Snapshot) -> Snapshot:
    """Return `snapshot` with windows that begin earlier."""
    sooner = [replace(w, starts_at=w.starts_at - 300.0) for w in snapshot.quota.maintenance]
    return replace(snapshot, quota=replace(snapshot.quota, maintenance=tuple(sooner)))


def _lending_nothing(snapshot: Snapshot) -> Snapshot:
    """Return `snapshot` where no project borrows."""
    projects = {n: replace(p, borrow=False) for n, p in snapshot.quota.projects.items()}
    return replace(snapshot, quota=replace(snapshot.quota, projects=projects))


@pytest.mark.parametrize("shown", [_closing, _lending_nothing])
def test_a_scheduler_that_heeds_a_key_too_much_is_noticed(
    shown: Callable[[Snapshot], Snapshot],
) -> None:
    """Others could use the devices that it leaves idle."""

    def timid(snapshot: Snapshot, now: float) -> Plan:
        return decide(shown(snapshot), now)

    with pytest.raises(AssertionError, match="could"):
        for seed in range(20):
            make = featured(histories.world_of)
            histories.run(seed, [laws.work_is_conserved], inner=timid, make=make)
