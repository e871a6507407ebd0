"""Cached bytes equal those made from scratch, whatever came and went before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bastion.records.encoded_records import EncodedList, EncodedMap
from bastion.scheduler.runs import Runs

RUNS = [Runs(at=number, lengths=(0, number)) for number in range(6)]
MAPS = st.dictionaries(st.sampled_from('abcde"é'), st.sampled_from(RUNS))
LISTS = st.lists(st.sampled_from(RUNS)).map(tuple)


@given(st.lists(MAPS, max_size=6))
def test_a_carried_map_is_the_bytes_of_one_made_from_nothing(maps: list[dict[str, Runs]]) -> None:
    """This includes their order, which the next leader reads."""
    carried = EncodedMap()
    for records in maps:
        assert carried.of(records) == EncodedMap().of(records)


@given(st.lists(LISTS, max_size=6))
def test_a_carried_list_is_the_bytes_of_one_made_from_nothing(
    lists: list[tuple[Runs, ...]],
) -> None:
    """More was added, all was sealed, or the beginning was removed."""
    carried = EncodedList()
    for records in lists:
        assert carried.of(records) == EncodedList().of(records)


def test_a_record_without_an_encoding_leaves_the_others() -> None:
    """One error does not change the next commit."""
    carried = EncodedMap()
    carried.of({"a": RUNS[0], "b": RUNS[1]})
    with pytest.raises(Exception, match=r"."):
        carried.of({"b": RUNS[2], "c": object()})
    assert carried.of({"b": RUNS[2]}) == EncodedMap().of({"b": RUNS[2]})
