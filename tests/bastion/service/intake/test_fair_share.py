"""What one turn reads of the inbox: some requests of each user, whatever others sent."""

from __future__ import annotations

from collections import Counter

from bastion.records.coding.limits import LAUNCH_BYTES
from bastion.service.intake.fair_share import (
    OWNER_BYTES,
    OWNER_READS,
    TURN_BYTES,
    TURN_READS,
    Wish,
    fair_share,
)


def _wishes(owner: str, count: int, *, reads: int = 2, size: int = 100) -> list[Wish]:
    return [Wish(key=f"{owner}/{n:05}", owner=owner, reads=reads, size=size) for n in range(count)]


def test_a_flood_of_one_user_keeps_no_other_out() -> None:
    """Of a thousand requests one turn reads some, in order, and all few of another user."""
    flood, other = _wishes("ann", 1_000), _wishes("ben", 3)
    taken = fair_share([*flood, *other])
    assert {each.key for each in other} <= set(taken)
    most = TURN_READS // 2 - len(other)
    assert [key for key in taken if key.startswith("ann")] == [each.key for each in flood[:most]]


def test_floods_of_several_users_are_read_alike() -> None:
    """Each of many floods gets its share, and the rest of the turn is divided evenly."""
    for users in (2, 4, 5, 8):
        taken = fair_share([each for n in range(users) for each in _wishes(f"a{n}", 1_000)])
        counts = Counter(key.partition("/")[0] for key in taken)
        assert len(counts) == users
        assert max(counts.values()) - min(counts.values()) <= 1
        assert len(taken) == TURN_READS // 2


def test_large_requests_of_many_users_keep_no_small_one_out() -> None:
    """The largest launches of twenty users fill the turn after another's small request."""
    large = [each for n in range(20) for each in _wishes(f"a{n:02}", 2, size=LAUNCH_BYTES)]
    taken = fair_share([*large, *_wishes("zoe", 1)])
    assert "zoe/00000" in taken
    assert (len(taken) - 1) * LAUNCH_BYTES <= TURN_BYTES


def test_what_one_user_has_read_is_bounded_in_bytes() -> None:
    """The bytes that one turn reads for one user are at most those of the largest launch."""
    taken = fair_share(_wishes("ann", 50, size=1 << 20))
    assert len(taken) << 20 == OWNER_BYTES


def test_what_a_turn_reads_is_bounded() -> None:
    """However many users send requests, the number of objects that one turn reads is bounded."""
    wishes = [each for n in range(5_000) for each in _wishes(f"user{n}", 1)]
    assert len(fair_share(wishes)) == TURN_READS // 2


def test_an_owner_in_debt_waits() -> None:
    """A user whose requests needed more reads than expected waits; others do not."""
    wishes = [*_wishes("ann", 1), *_wishes("ben", 1)]
    assert fair_share(wishes, {"ann": OWNER_READS}) == ("ben/00000",)
