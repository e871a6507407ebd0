"""The last warning of a bastion, from the tail of its log."""

from __future__ import annotations

import io

import pytest

from bastion.client.status.own_log import last_warning
from bastion.clock import VirtualClock
from bastion.errors import StoreError
from bastion.records.root import Event
from bastion.service.journal import Journal


@pytest.mark.parametrize("as_json", [False, True])
def test_the_last_warning_is_what_the_journal_wrote(as_json: bool) -> None:
    """It is found in both formats, with its time, behind lines that are no warnings."""
    clock, out = VirtualClock(), io.StringIO()
    journal = Journal("b", clock, out=out, as_json=as_json)
    journal.tell_events([Event(n=1, at=0.0, job="j", what="failed", text="exited with code 3")])
    clock.advance(60.0)
    at = float(int(clock.wall()))
    journal.problem("store", StoreError("it refuses", hint="grant it"))
    journal.failure("a turn", ValueError("several\nlines"))
    journal.problem("store", StoreError("it refuses: 403", hint="grant it"))
    journal.note("last")
    tail = out.getvalue().encode()
    found = last_warning(tail, since=at)
    assert found is not None
    assert (found.at, found.text) == (at, "store: it refuses: 403 (hint: grant it)")
    assert last_warning(tail, since=at + 1.0) is None


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"\xff\xfe warning: x\n",
        b"11-14T22:13:20Z warning: the cut is in its time\n",
        b'{"at": "2023-11-14T22:13:20Z", "level": "warning"}\n{"at": 3, "level": "warning", "te',
        b'{"at": null, "level": "warning", "text": "x"}\n[]\n{}\n',
        b"2023-11-14T22:13:20Z leads\n",
    ],
)
def test_what_is_no_warning_is_none(tail: bytes) -> None:
    """A cut line, another program's bytes and a line without a warning are passed over."""
    assert last_warning(tail, since=0.0) is None
