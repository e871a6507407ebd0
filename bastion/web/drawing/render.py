"""
Values to HTML, by templates that escape all their values.

Times are shown in a readable form, with the exact moment beside them. The reference is the time of
the bucket, never this machine's.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bastion.spec.values.quantity import (
    text_of_bytes,
    text_of_cost,
    text_of_hours,
    text_of_number,
    text_of_seconds,
)
from bastion.web.drawing.replicas import failed_replica, replicas_in
from quota.amounts import Amounts

PAGES = (
    ("/", "Now"),
    ("/machines", "Machines"),
    ("/timeline", "Timeline"),
    ("/ended", "Ended"),
    ("/failures", "Failures"),
    ("/projects", "Projects"),
    ("/users", "Users"),
    ("/quota", "Quota"),
)
"""The address and the name of each page, in the order of the menu."""


@cache
def environment() -> Environment:
    """Return the templates of this package."""
    made = Environment(
        loader=PackageLoader("bastion.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        span=span,
        iso=iso,
        clock=clock,
        coordinate=coordinate,
        amounts=amounts,
        hours=text_of_hours,
        cost=text_of_cost,
        local=local,
        percent=percent,
        number=text_of_number,
        size=text_of_bytes,
        replicas=replicas_in,
        failed_replica=failed_replica,
    )
    made.globals["pages"] = PAGES
    return made


def render(template: str, **values: Any) -> str:
    """Return the page that `template` creates from `values`."""
    return environment().get_template(template).render(**values)


def span(seconds: float) -> str:
    """Return `seconds` in a readable form: `3m 5s`."""
    return text_of_seconds(float(max(0, int(seconds))))


def iso(seconds: float) -> str:
    """Return a moment in UTC; empty if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""


def clock(seconds: float) -> str:
    """Return a moment in UTC for people: `2026-11-18 00:00:00`."""
    return iso(seconds).replace("T", " ").removesuffix("Z")


def coordinate(number: float) -> str:
    """Format a coordinate of a drawing: a tenth is less than anyone sees."""
    return f"{number:.1f}".removesuffix(".0")


def local(seconds: float) -> str:
    """Return a moment in UTC as the value of a form field."""
    return iso(seconds).removesuffix("Z")


def percent(part: float) -> str:
    """Format a fraction as `40 %`; a small nonzero one as `< 1 %`."""
    if 0 < part <= 0.005:
        return "<\N{NO-BREAK SPACE}1\N{NO-BREAK SPACE}%"
    return f"{100 * part:.0f}\N{NO-BREAK SPACE}%"


def amounts(units: Amounts) -> str:
    """Return amounts such as `8 h100 + 32 cpu`, devices first; a dash for nothing."""
    items = sorted(units.items(), key=lambda item: (item[0] in ("cpu", "memory"), item[0]))
    return " + ".join(_amount(kind, number) for kind, number in items) or "-"


def _amount(kind: str, number: int) -> str:
    return f"{text_of_bytes(number)} memory" if kind == "memory" else f"{number:,} {kind}"
