"""`changes`, against the plain rule: a name counts where the object under it is another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bastion.changes import Changes, changes


class Record:
    """Equal to every other: only identity tells them apart."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record)

    __hash__ = None  # type: ignore[assignment]


RECORDS = [Record() for _ in range(4)]
MAPS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(RECORDS))


@given(MAPS, MAPS)
def test_what_is_another_object_has_moved(
    before: dict[str, Record], after: dict[str, Record]
) -> None:
    """Any two maps: everything that stands in one of them alone is named, and nothing else."""
    found = changes(before, after)
    assert found.gone == [name for name in before if after.get(name) is not before[name]]
    assert sorted(found.come) == sorted(n for n in after if before.get(n) is not after[n])
    both = list(zip(before.items(), after.items()))
    assert all(a[0] == b[0] and a[1] is b[1] for a, b in both[: found.same])
    new = [name for name in found.come if name not in before]
    assert new == [name for name in after if name not in before]


def test_a_map_and_itself_differ_in_nothing() -> None:
    """The same map is not gone through."""
    records = {"a": RECORDS[0]}
    assert changes(records, records) == Changes([], [], 1)
