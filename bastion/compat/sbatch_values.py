"""Parsers for the values of sbatch's options; each raises `SpecError` without a line number."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from bastion.errors import SpecError
from bastion.spec import After

_MIB = 1 << 20
_UNITS = {"": _MIB, "K": 1 << 10, "M": _MIB, "G": 1 << 30, "T": 1 << 40}
"""Units of memory; the default is megabytes."""
_WHEN: dict[str, Literal["ok", "any", "failed"]] = {
    "afterok": "ok",
    "afterany": "any",
    "afternotok": "failed",
}


def whole(text: str) -> int:
    """Parse a whole number above zero."""
    if not re.fullmatch(r"\d{1,9}", text) or not int(text):
        raise SpecError("is not a whole number above zero")
    return int(text)


def adjustment(text: str) -> int:
    """Parse the value of `--nice`; 100 without a number, as in Slurm."""
    if text and not re.fullmatch(r"[+-]?\d{1,10}", text, re.ASCII):
        raise SpecError("is not a whole number")
    return int(text) if text else 100


def nodes(text: str) -> int:
    """Parse the number of nodes; a range is accepted only if both ends are equal."""
    low, dash, high = text.partition("-")
    if dash and low != high:
        raise SpecError("a gang has one size; write one number")
    return whole(low)


def memory(text: str) -> int:
    """Parse an amount of memory in bytes; the default unit is megabytes."""
    match = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text.upper())
    if match is None:
        raise SpecError("is not a size such as 64G, or megabytes")
    if not int(match[1]):
        raise SpecError("all of a machine is asked for with --exclusive")
    return int(match[1]) * _UNITS[match[2]]


def seconds(text: str) -> float | None:
    """Parse minutes, m:s, h:m:s, d-h, d-h:m or d-h:m:s; None for no limit."""
    if text in ("0", "UNLIMITED", "INFINITE"):
        return None
    match = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text)
    if match is None:
        raise SpecError("is not a time such as 90, 12:00:00 or 2-12")
    days, *parts = (None if part is None else int(part) for part in match.groups())
    first, second, third = parts
    assert first is not None
    if days is None and third is None:  # minutes, or minutes:seconds
        return 60.0 * first + (second or 0)
    return 86400.0 * (days or 0) + 3600 * first + 60 * (second or 0) + (third or 0)


def one(why: str) -> Callable[[str], str]:
    """Return a parser of a single name; `why` is the reason for allowing only one."""

    def read(text: str) -> str:
        if "," in text:
            raise SpecError(f"{why}; name one")
        return text

    return read


def hosts(text: str) -> tuple[str, ...]:
    """Parse names of machines."""
    if "[" in text or "/" in text:
        raise SpecError("write each machine's name: --nodelist=a1,a2")
    return tuple(text.split(","))


def labels(text: str) -> dict[str, str]:
    """Parse labels that machines must have."""
    labels = {}
    for part in re.split(r"[&,]", text):
        name, equals, value = part.partition("=")
        if not equals or re.search(r"[|\[\]()*!]", part):
            raise SpecError("machines have labels, no features; write NAME=TEXT&OTHER=TEXT")
        labels[name] = value
    return labels


def afters(text: str) -> tuple[After, ...]:
    """Parse the dependencies of a job."""
    if "?" in text:
        raise SpecError("all dependencies have to be met; any of several cannot be asked for")
    found = []
    for part in text.split(","):
        kind, *jobs = part.split(":")
        when = _WHEN.get(kind)
        if when is None or not jobs:
            raise SpecError(
                f"{part!r} has no counterpart; allowed: {', '.join(_WHEN)}, as KIND:JOB"
            )
        found += [After(job, when=when) for job in jobs]
    return tuple(found)
