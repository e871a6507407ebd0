"""The sealed log: only its segments near a number are listed, however long the log is."""

from __future__ import annotations

from itertools import accumulate

import pytest

from bastion.history.sealed_log import REACH, sealed_segments
from bastion.records.keys import layout
from bastion.store.memory import MemoryStore
from bastion.store.port import Entry
from tests.rigs.wrapped import Wrapped


class Counting(Wrapped):
    """A store that counts the entries that it lists."""

    listed = 0

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        found = super().list(prefix, start_after=start_after, limit=limit)
        self.listed += len(found)
        return found


def log_of(firsts: list[int]) -> Counting:
    """Return a store with a segment that begins at each of `firsts`."""
    store = MemoryStore(lambda: 0.0)
    for first in firsts:
        store.create(layout.events(first), b"")
    return Counting(store)


def test_the_end_of_a_long_log_is_found_without_its_beginning() -> None:
    """A reader of the last hour does not pay for the years before."""
    store = log_of([*range(0, 50_000, 10)])
    assert [each.first for each in sealed_segments(store, after=49_985)] == [49_980, 49_990]
    assert store.listed < 150


@pytest.mark.parametrize(
    "lengths",
    [
        [],
        [5],
        [10] * 300,
        [500, 30_000, 500, 1, REACH, REACH - 1, 20_000],
        [1, 60_000],
    ],
)
@pytest.mark.parametrize("missing", [0, 2])
def test_the_segments_are_those_of_a_list_of_the_whole_log(
    lengths: list[int], missing: int
) -> None:
    """Segments of any length are found, also if an admin has deleted the oldest."""
    firsts = [0, *accumulate(lengths)][missing:]
    store = log_of(firsts)
    numbers = {n for first in firsts for n in (first - 1, first, first + 1) if n >= 0}
    for after in sorted({0, *numbers, 1_000_000}):
        earlier = [first for first in firsts if first <= after]
        wanted = [*earlier[-1:], *(first for first in firsts if first > after)]
        assert [each.first for each in sealed_segments(store, after=after)] == wanted
