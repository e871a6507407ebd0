"""A cached answer of the record is shown immediately, marked as old, and then renewed."""

from __future__ import annotations

import re
from threading import Event

from bastion.clock import VirtualClock
from bastion.web.record.question import Period
from bastion.web.record.reader import KEPT_S, RecordReader
from bastion.web.record.summary import Summary
from tests.bastion.web.site import asked_here, busy_store, site
from tests.rigs.busy_bucket import NOW, busy_root, write_history

PATHS = ("/projects?days=1", "/users?days=1", "/timeline")


def _chart(page: str) -> str:
    found = re.search(r'<img class="chart" src="([^"]*)"', page)
    assert found is not None
    return found[1]


def test_an_old_answer_is_told_with_its_age_until_there_is_a_new_one() -> None:
    """Sums of ten minutes ago are not presented as current; this includes their chart."""
    store, clock, may_answer = busy_store(), VirtualClock(wall=NOW), Event()
    write_history(store, busy_root(machines=4, running=6, queued=120), days=1, a_day=24)
    answer = asked_here(store, clock)

    def ask(period: Period) -> Summary:
        assert may_answer.wait(30)
        return answer(period)

    record = RecordReader(ask, clock, wait_s=20.0)
    with site(store, clock=clock, record=record) as client:
        may_answer.set()
        first = [client.get(path).text for path in PATHS]
        assert not any("data-pending" in text for text in first)
        may_answer.clear()
        clock.advance(KEPT_S + 5)
        assert not any("data-pending" in client.get(path).text for path in PATHS), "too soon"
        clock.advance(600)
        for path in PATHS:
            text = client.get(path).text
            assert "this is what the record said 11m 5s ago; it is being read again" in text
            assert '<meta http-equiv="refresh" content="1">' in text
        may_answer.set()
        record._thread.submit(lambda: None).result(20)  # its one thread has answered all
        last = [client.get(path).text for path in PATHS]
        assert not any("data-pending" in text for text in last)
        assert _chart(first[0]) != _chart(last[0])
        assert client.get(_chart(last[0]).replace("&amp;", "&")).status_code == 200
