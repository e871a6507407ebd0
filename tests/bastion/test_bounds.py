"""Numbers and texts of strangers are bounded in the records themselves, for all readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from bastion.bounds import LATEST_S, MOST_NUMBER, check_whole, within
from bastion.errors import SpecError
from bastion.job import MAX_DETAIL_CHARACTERS, Claim, End, Hold, JobRecord
from bastion.lifecycle import remark
from bastion.records.reports.facts import Health, Held, Hello, HostFact, Idle, Preparing, Reported
from bastion.spec.launch import MAX_HOLD_S
from quota import Amounts
from tests.rigs import job_records

OF = HostFact(project="p", job="j-1", attempt=1, nonce="n", replica=0, host=0)
END = End(kind="exited", codes=(1,), first_failed=0)


@pytest.mark.parametrize("number", [1e13, 1e300, inf, -inf, nan, -1e12, 0.0, 5.0])
def test_a_hold_always_has_a_date(number: float) -> None:
    """The note on a held job has a date, whatever was committed as the end of the hold."""
    hold = Hold(until=number, folder="/x", end=END)
    assert 0.0 <= hold.until <= LATEST_S
    assert "held for inspection until" in remark(kept(hold))


def kept(hold: Hold) -> JobRecord:
    """Return a job whose only host is held."""
    job = job_records.running()
    assert job.attempt is not None
    host = replace(job.attempt.hosts[0][0], hold=hold)
    return replace(job, attempt=replace(job.attempt, hosts=((host,),)))


@pytest.mark.parametrize("number", [inf, -inf, nan, -1e-9, MAX_HOLD_S * 1.01])
def test_a_hold_that_no_launch_may_ask_for_is_refused(number: float) -> None:
    """The length of a hold is finite, and at most what a spec may request."""
    with pytest.raises(SpecError, match="for_s"):
        Held(of=OF, for_s=number, folder="/x", end=END)
    assert Held(of=OF, for_s=MAX_HOLD_S, folder="/x", end=END).for_s == MAX_HOLD_S


REFUSED: dict[str, Callable[[], object]] = {
    "numbers.x": lambda: Reported(of=OF, numbers={"x": nan}),
    "numbers": lambda: Reported(of=OF, numbers={str(n): 0.0 for n in range(33)}),
    "numbers: characters": lambda: Reported(of=OF, numbers={"n" * 65: 0.0}),
    "port": lambda: Claim(machine="m", life=1, port=65536),
    "life": lambda: Claim(machine="m", life=MOST_NUMBER + 1),
    "address": lambda: Claim(machine="m", life=1, address="a" * 256),
    "codes": lambda: End(kind="exited", codes=(2**31 + 1,)),
    "codes: 1001": lambda: End(kind="exited", codes=(0,) * 1001),
    "sizes": lambda: End(kind="exited", sizes=(-1,)),
    "sizes: 1000000000000001": lambda: End(kind="exited", sizes=(MOST_NUMBER + 1,)),
    "dropped_bytes": lambda: End(kind="exited", dropped_bytes=-1),
    "resources.h100": lambda: hello(Amounts({"h100": -1})),
    "resources.memory": lambda: hello(Amounts({"memory": MOST_NUMBER + 1})),
    "labels": lambda: hello(labels={str(n): "" for n in range(101)}),
    "characters of a name": lambda: hello(labels={"x": "y" * 256}),
    "bad_devices": lambda: Health(bad_devices={"h100": (-1,)}),
    "bad_devices: 1024": lambda: Health(bad_devices={"h100": (1024,)}),
}


def hello(resources: Amounts = Amounts({"h100": 8}), **more: Any) -> Hello:  # noqa: B008
    """Return the bell of a registration."""
    return Hello(resources=resources, address="a", hostname="h", version="1", **more)


@pytest.mark.parametrize("field", REFUSED)
def test_a_record_out_of_bounds_is_refused(field: str) -> None:
    """Any number or list out of bounds is refused with its field."""
    with pytest.raises(SpecError, match=f"^{field}"):
        REFUSED[field]()


def test_a_measured_time_is_clamped() -> None:
    """The clock that measured a host's run time may have jumped: no end is refused for it."""
    assert End(kind="exited", ran_s=nan).ran_s == 0.0
    assert End(kind="exited", ran_s=-5.0).ran_s == 0.0
    assert 0 < End(kind="exited", ran_s=inf).ran_s < 1e10


def test_texts_are_cut() -> None:
    """Texts for users are cut to their limit, and are never a reason to refuse a record."""
    long = "x" * 100_000
    assert len(Preparing(of=OF, text=long).text) == 1_000
    assert len(Idle(of=OF, text=long).text) == 1_000
    assert len(Health(text=long).text) == 1_000
    end = End(kind="exited", detail=long, on_end=long, notice=long)
    assert max(len(end.detail), len(end.on_end), len(end.notice)) == MAX_DETAIL_CHARACTERS


def test_a_huge_number_has_a_message() -> None:
    """Python cannot print a number of thousands of digits: the message says that there are many."""
    with pytest.raises(SpecError, match="more than 30 digits is out of bounds; 0 to 9 are allowed"):
        check_whole("units", 10**5000, most=9)


@pytest.mark.parametrize(
    ("number", "wanted"), [(-1.0, 0.0), (3.0, 3.0), (11.0, 10.0), (inf, 10.0), (nan, 0.0)]
)
def test_the_nearest_within_bounds(number: float, wanted: float) -> None:
    """A number above or below is clamped, and NaN is zero."""
    assert within(number, most=10.0) == wanted
