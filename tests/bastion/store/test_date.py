"""The date of a store, according to its answers."""

from __future__ import annotations

import pytest

from bastion.clock import VirtualClock
from bastion.errors import NotFoundError
from bastion.metrics.meter import NoMeter
from bastion.metrics.metered_store import MeteredStore
from bastion.store.date import AnswerDate, date_of
from bastion.store.gcs import GcsStore
from bastion.store.memory import MemoryStore
from tests.servers.gcs import GcsServer

WRONG = VirtualClock(wall=0.0)


def test_before_the_first_answer_the_date_is_this_machines() -> None:
    """After that it is the date of any answer, even if the object does not exist."""
    with GcsServer("b") as server:
        store = GcsStore("b", credentials=None, endpoint=server.url)
        date = date_of(store, WRONG)
        assert date() == 0.0
        with pytest.raises(NotFoundError):
            store.read("a")
        assert date() > 1_700_000_000.0


@pytest.mark.parametrize("header", [None, "", "yesterday", "Mon, 99 Nov 2026 00:00:00 GMT"])
def test_an_answer_without_a_date_tells_none(header: str | None) -> None:
    """An invalid date of a broken server is ignored."""
    date = AnswerDate()
    date.hear(header)
    assert date.now() is None


def test_a_store_whose_calls_are_counted_has_its_date() -> None:
    """The server of pages counts its calls, and also shows ages by the bucket's clock."""
    store = MeteredStore(MemoryStore(lambda: 5.0), NoMeter(), WRONG)
    assert date_of(store, WRONG)() == 5.0
