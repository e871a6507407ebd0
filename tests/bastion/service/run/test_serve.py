"""One bastion from start to stop."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest

from bastion.clock import VirtualClock
from bastion.errors import FencedError, LeaseHeldError, StoreError, StoreRefusedError
from bastion.lane import InlineLane
from bastion.records.keys import layout
from bastion.records.root import Held, Root
from bastion.service.config.settings import CLOUD, LOCAL, pace_of
from bastion.service.journal import Journal
from bastion.service.kept_log import KeptLog
from bastion.service.run.serve import MOST_FAILURES, Service
from bastion.store import Version
from bastion.store.folder.watch import REMOVED_S, Pause, Watch
from bastion.store.memory import MemoryStore

HELD = Held(root=Root(epoch=3, seq=1, now=1.0, write_id="w"), version=Version("1"), modified_at=1.0)


class Script:
    """An election and leaders that follow a script, and record their calls."""

    def __init__(
        self, *, tries: list[object] | None = None, turns: list[object] | None = None
    ) -> None:
        self.tries = tries or []
        self.turns = turns or []
        self.stop_after = 20
        self.did: list[str] = []
        self.clock = VirtualClock()
        self.give_up_error: Exception | None = None
        self.moves = False
        self.refused_at: float | None = None
        self.waits_s = 0.1
        self.takes_s = 0.0
        self.told: list[bool] = []
        self.bucket = MemoryStore(self.clock.wall)

    @property
    def moved_at(self) -> float:
        """See `Election`."""
        return self.clock.monotonic() if self.moves else float("-inf")

    def try_once(self) -> Held:
        """See `Election`."""
        self.did.append("stand")
        outcome = self.tries.pop(0) if self.tries else HELD
        if isinstance(outcome, Exception):
            raise outcome
        return HELD

    def turn(self) -> bool:
        """See `Leader`."""
        self.did.append("turn")
        self.clock.advance(self.takes_s)
        outcome = self.turns.pop(0) if self.turns else False
        if isinstance(outcome, Exception):
            raise outcome
        return bool(outcome)

    def give_up(self) -> None:
        """See `Leader`."""
        self.did.append("give up")
        if self.give_up_error is not None:
            raise self.give_up_error

    def settle(self, timeout_s: float) -> None:
        """See `Leader`: nothing is ever in flight."""

    def close(self) -> None:
        """See `Leader`."""
        self.did.append("close")

    def has_refusals(self) -> bool:
        """See `Leader`."""
        return self.refused_at is not None and self.clock.monotonic() >= self.refused_at

    def wait_s(self, *, moved: bool, busy: bool, is_told: bool) -> float:
        """See `Leader`."""
        self.told.append(is_told)
        return self.waits_s

    def is_stopping(self) -> bool:
        """Whether enough was done."""
        return len(self.did) >= self.stop_after

    def service(
        self,
        *,
        standby: bool = False,
        is_over: Callable[[], bool] = lambda: False,
        out: StringIO | None = None,
        watch: Watch | None = None,
    ) -> Service:
        """Return the service under test."""
        lead: Callable[[Held], object] = lambda held: self  # noqa: E731
        journal = Journal("b", self.clock, out=out)
        return Service(
            self,  # type: ignore[arg-type]
            lead,  # type: ignore[arg-type]
            self.clock,
            journal,
            KeptLog(journal, self.bucket, self.clock, InlineLane()),
            pace=LOCAL,
            is_stopping=self.is_stopping,
            is_over=is_over,
            standby=standby,
            watch=watch,
        )


def test_it_leads_until_it_is_asked_to_stop() -> None:
    """It takes the lead, runs turns until it is told to stop, and gives up the lead."""
    script = Script()
    assert script.service().run() == 0
    assert script.did[:2] == ["stand", "turn"]
    assert script.did[-2:] == ["give up", "close"]
    assert script.did.count("give up") == 1


class Newspaper(Pause):
    """A watch that always has news after 5 ms."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.waited_s: list[float] = []

    def wait(self, timeout_s: float) -> bool:
        """See `Watch`."""
        self.waited_s.append(timeout_s)
        super().wait(0.005)
        return True


def test_news_ends_the_pause_between_two_turns() -> None:
    """The inbox is read immediately after a write; without a watch, the next turn is on time."""
    script, still = Script(), Script()
    paper = Newspaper(script.clock)
    assert script.service(watch=paper).run() == still.service().run() == 0
    turns = script.did.count("turn")
    assert turns == still.did.count("turn")
    began_s = VirtualClock().monotonic()
    took_s, still_s = (each.clock.monotonic() - began_s for each in (script, still))
    assert took_s == pytest.approx(0.005 * len(paper.waited_s))
    assert still_s > 10 * took_s


def test_a_refusal_of_a_provider_ends_the_pause_too() -> None:
    """A create in a sold-out zone is immediately placed in another one."""
    script = Script()
    script.waits_s, script.stop_after = 5.0, 3
    script.refused_at = script.clock.monotonic() + 1.0
    service = script.service()
    began = script.clock.monotonic()
    assert service.run() == 0
    assert script.did[:3] == ["stand", "turn", "turn"]
    assert script.clock.monotonic() - began < 1.5


def test_a_store_out_of_reach_is_waited_for() -> None:
    """A turn that fails because of the store is retried a second later."""
    script = Script(tries=[StoreError("down")], turns=[StoreError("down"), True])
    assert script.service().run() == 0
    assert script.did[:5] == ["stand", "stand", "turn", "turn", "turn"]


def test_a_fenced_bastion_stops_acting() -> None:
    """A fenced bastion stops its lanes, does not give up the lead, and ends with 1."""
    script = Script(turns=[True, FencedError(ours=3, theirs=4)])
    assert script.service().run() == 1
    assert script.did == ["stand", "turn", "turn", "close"]


def test_a_standby_waits_for_the_lead_again() -> None:
    """A standby that was fenced waits for the lead again."""
    script = Script(turns=[FencedError(ours=3, theirs=4)])
    assert script.service(standby=True).run() == 0
    assert script.did[:4] == ["stand", "turn", "close", "stand"]


def test_without_standby_a_living_leader_ends_it() -> None:
    """Without `--standby`, a bastion that sees root change under another ends with 1."""
    script = Script(tries=[LeaseHeldError("other")] * 1000)
    script.stop_after, script.moves = 1000, True
    assert script.service().run() == 1
    assert script.clock.monotonic() - 1000.0 <= LOCAL.ttl_s
    assert "turn" not in script.did


def test_a_silent_leader_is_outwaited() -> None:
    """Without `--standby`, a bastion waits for a leader that makes no commits, and takes over."""
    script = Script(tries=[LeaseHeldError("other")] * 10)
    assert script.service().run() == 0
    assert "turn" in script.did


def test_a_standby_waits_as_long_as_it_takes() -> None:
    """With `--standby`, it waits until it can lead."""
    script = Script(tries=[LeaseHeldError("other")] * 100)
    script.stop_after = 105
    assert script.service(standby=True).run() == 0
    assert "turn" in script.did


@pytest.mark.parametrize("standby", [True, False])
def test_a_refusal_is_waited_out(standby: bool) -> None:
    """A store that answered before and refuses now is retried, like one out of reach."""
    script = Script(tries=[StoreRefusedError("forbidden")] * 3, turns=[StoreRefusedError("no")])
    assert script.service(standby=standby).run() == 0
    assert script.did[:6] == ["stand", "stand", "stand", "stand", "turn", "turn"]


def test_a_standby_outwaits_a_full_bucket() -> None:
    """A standby that cannot write its commit stays, and says why once per minute."""
    script = Script(tries=[LeaseHeldError("other"), *[StoreRefusedError("the disk is full")] * 30])
    script.stop_after = 40
    journal = StringIO()
    assert script.service(standby=True, out=journal).run() == 0
    assert "turn" in script.did
    assert journal.getvalue().count("store: the disk is full") == 1


def test_a_bucket_that_has_room_again_is_no_problem() -> None:
    """The first successful turn ends the problem that kept earlier turns from the bucket."""
    script = Script(turns=[StoreRefusedError("the disk is full")] * 2)
    service = script.service()
    assert service.run() == 0
    assert script.did.count("turn") > 2
    assert service._journal.problems == ()


def test_a_lead_is_kept_when_the_time_is_up() -> None:
    """After the deadline of a stop, no further commit starts: one may already be in doubt."""
    script = Script()
    assert script.service(is_over=lambda: True).run() == 1
    assert "give up" not in script.did
    assert script.did[-1] == "close"


def test_a_last_commit_that_fails_is_reported() -> None:
    """Failing to give up the lead means exit code 1."""
    script = Script()
    script.give_up_error = StoreError("down")
    assert script.service().run() == 1


def test_once_is_one_turn() -> None:
    """`once` leads for one turn and gives up the lead."""
    script = Script()
    assert script.service().once() == 0
    assert script.did == ["stand", "turn", "give up"]


@pytest.mark.parametrize(
    ("url", "pace"),
    [("file:///x", LOCAL), ("memory:", LOCAL), ("gs://b", CLOUD), ("s3://b", CLOUD)],
)
def test_the_pace_is_the_stores(url: str, pace: object) -> None:
    """Folders are polled continuously, cloud stores as rarely as their limits require."""
    assert pace_of(url) == pace


def test_paces_leave_room_for_the_lease() -> None:
    """An idle leader renews its lease several times before it expires."""
    for pace in (LOCAL, CLOUD):
        assert pace.idle_poll_s + pace.commit_s < pace.ttl_s / 3


def test_a_turn_that_fails_by_a_bug_is_discarded() -> None:
    """An unexpected exception ends no bastion: it is logged, and the next turn follows."""
    script = Script(turns=[ValueError("odd"), OverflowError("odder"), True])
    assert script.service().run() == 0
    assert script.did.count("turn") > 3
    assert script.did.count("stand") == 1


def test_many_failed_turns_in_a_row_end_a_bastion() -> None:
    """If many consecutive turns fail, the process ends, so that a new one starts."""
    script = Script(turns=[ValueError("odd")] * (MOST_FAILURES + 5))
    script.stop_after = 100
    with pytest.raises(ValueError, match="odd"):
        script.service().run()
    assert script.did.count("turn") == MOST_FAILURES


def test_a_leader_knows_whether_news_end_its_waits() -> None:
    """With a watched inbox, a leader with nothing in progress polls less often."""

    class Watching(Pause):
        def fileno(self) -> int:
            """See `Watch`."""
            return 7

    script = Script()
    assert script.service().run() == 0
    assert set(script.told) == {False}
    script = Script()
    assert script.service(watch=Watching(script.clock)).run() == 0
    assert set(script.told) == {True}


@pytest.mark.parametrize(
    "script",
    [
        Script(turns=[StoreRefusedError("state/root.json was not written")] * 10),
        Script(tries=[StoreRefusedError("state/root.json was not written")] * 10),
    ],
)
def test_a_bastion_whose_turns_fail_says_why_in_the_bucket(script: Script) -> None:
    """Its log is written by the loop: a leader that cannot write root is silent otherwise."""
    script.stop_after = 5
    script.service().run()
    found = script.bucket.read(layout.bastion_log("b"))
    assert found is not None
    assert b"warning: store: state/root.json was not written\n" in found.data


@pytest.mark.parametrize("is_slow", [False, True])
def test_turns_that_outlast_the_lease_are_a_problem(is_slow: bool) -> None:
    """They succeed, but nobody hears of the bastion in between, and a standby may take over."""
    script, journal = Script(), StringIO()
    script.takes_s = LOCAL.ttl_s + (0.1 if is_slow else -0.1)
    service = script.service(out=journal)
    assert service.run() == 0
    why = "turn: takes longer than the lease of 3s: the bucket answers slowly, or"
    assert journal.getvalue().count(why) == is_slow
    assert len(service._journal.problems) == is_slow


def test_the_last_line_of_a_bastion_is_in_the_bucket() -> None:
    """Why it ended can be read without its machine."""
    script = Script(turns=[FencedError(ours=3, theirs=4)])
    assert script.service().run() == 1
    found = script.bucket.read(layout.bastion_log("b"))
    assert found is not None
    assert found.data.endswith(b"another bastion took over, this one stops acting\n")


def test_a_bastion_whose_bucket_was_deleted_ends() -> None:
    """It survives an outage; a folder that the kernel reports deleted for a minute is none."""

    class Removed(Pause):
        def is_removed(self) -> bool:
            """See `Watch`."""
            return script.clock.monotonic() > began + REMOVED_S

    script = Script(turns=[StoreError("gone")] * 500)
    script.stop_after = 1000
    began = script.clock.monotonic()
    with pytest.raises(StoreRefusedError, match="was deleted"):
        script.service(watch=Removed(script.clock)).run()
    assert 2 * REMOVED_S < script.clock.monotonic() - began < 3 * REMOVED_S
