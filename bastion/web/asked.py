"""
The query parameters of a page, and a sentence on each one that the page does not know.

An unknown parameter changes nothing on the page, so the page says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from bastion.web.pages import ended, machines
from bastion.web.pages.now import FILTERS, TABS
from bastion.web.pages.timeline import SPANS, moment_of
from bastion.web.pages.usage import PERIODS

MOST_TOLD = 5
_SHOWN = 60
"""The most characters of a name or a value that a sentence quotes."""
_DIGITS = 15

Check = Callable[[str], str]
"""Returns what is allowed instead of a value; empty if the value is valid."""


def _any(_: str) -> str:
    return ""


def _number(text: str) -> str:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return "" if is_number else "a whole number"


def _moment(text: str) -> str:
    return "a date, as 2026-11-01 or 2026-11-01T08:30" if moment_of(text) is None else ""


def _one_of(words: Sequence[str]) -> Check:
    *others, last = words
    allowed = f"{', '.join(others)} or {last}"
    return lambda text: "" if text in words else allowed


_DAYS = {"days": _one_of(list(PERIODS)), "page": _number}
NOW = dict.fromkeys(FILTERS, _any) | {
    "show": _one_of([name for name in TABS if name]),
    "page": _number,
}
MACHINES = dict.fromkeys(machines.FILTERS, _any) | {
    "show": _one_of([name for name in machines.TABS if name]),
    "page": _number,
}
TIMELINE = {
    "span": _one_of(list(SPANS)),
    "from": _moment,
    "to": _moment,
    "search": _any,
    "page": _number,
}
ENDED = (
    dict.fromkeys(ended.FILTERS, _any)
    | {"state": _one_of(ended.STATES), "tasks": lambda text: ended.TASKS * (text != ended.TASKS)}
    | _DAYS
)
FAILURES = {"project": _any, "search": _any} | _DAYS
USAGE = {"project": _any} | _DAYS
QUOTA: dict[str, Check] = {}
WHOLE_LOG = dict.fromkeys(("attempt", "replica", "host", "process"), _number)
LOG = WHOLE_LOG | {"at": _number}
JOB = LOG | {"find": _any}


def unknown(asked: Sequence[tuple[str, str]], known: Mapping[str, Check]) -> list[str]:
    """
    Return a sentence on each parameter that is unknown, repeated or invalid.

    Args:
        asked: The names and values in the address.
        known: The parameters of the page, each with the check of its values.
    """
    told = list(_unknown(asked, known))
    more = len(told) - MOST_TOLD
    return told[:MOST_TOLD] + (
        [f"{more} more parameters of the address are unknown or invalid"] * (more > 0)
    )


def _unknown(asked: Sequence[tuple[str, str]], known: Mapping[str, Check]) -> Iterator[str]:
    times = Counter(name for name, _ in asked)
    for name, text in dict(asked).items():  # the last of several counts
        check = known.get(name)
        if check is None:
            takes = ", ".join(known) or "no parameters"
            yield f"unknown parameter {_short(name)} in the address; this page takes {takes}"
        elif times[name] > 1:
            yield f"{name} appears {times[name]} times in the address; the last one counts"
        elif text and (allowed := check(text)):
            yield f"{name}={_short(text)} in the address is invalid; {name} is {allowed}"
    begin, end = (moment_of(dict(asked).get(name, "")) for name in ("from", "to"))
    if "from" in known and begin is not None and end is not None and end <= begin:
        yield "to in the address is not after from"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
