"""`changes`, compared with the simple rule: a name counts if its object is another one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bastion.changes import Changes, changes


class Record:
    """Equal to every other: only identity distinguishes them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record)

    __hash__ = None  # type: ignore[assignment]


RECORDS = [Record() for _ in range(4)]
MAPS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(RECORDS))


@given(MAPS, MAPS)
def test_what_is_another_object_has_moved(
    before: dict[str, Record], after: dict[str, Record]
) -> None:
    """For any two maps, every entry that is in only one of them is named, and no other."""
    found = changes(before, after)
    assert found.gone == [name for name in before if after.get(name) is not before[name]]
    assert sorted(found.come) == sorted(n for n in after if before.get(n) is not after[n])
    both = list(zip(before.items(), after.items()))
    assert all(a[0] == b[0] and a[1] is b[1] for a, b in both[: found.same])
    new = [name for name in found.come if name not in before]
    assert new == [name for name in after if name not in before]


def test_a_map_and_itself_differ_in_nothing() -> None:
    """The same map is not iterated over."""
    records = {"a": RECORDS[0]}
    assert changes(records, records) == Changes([], [], 1)
