"""
How views look at a Python prompt and in a notebook: one short line, and a table in HTML.

This module reads nothing: it derives text only from the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

_SHOWN = 8
"""Ended jobs that are listed."""

if TYPE_CHECKING:
    from datetime import datetime

    from quota.amounts import Amounts


def moment(seconds: float | None) -> datetime | None:
    """Return `seconds` since 1970 as a time in UTC; None for none."""
    return moment_of(seconds) if seconds else None


def moment_of(seconds: float) -> datetime:
    """Return `seconds` since 1970 as a time in UTC."""
    from datetime import UTC, datetime  # not loaded for a view without times

    return datetime.fromtimestamp(seconds, UTC)


def units_text(amounts: Amounts) -> str:
    """Return amounts as a table shows them, devices first: `2 h100 + 8 cpu`."""
    from bastion.spec.values.quantity import text_of_units  # not loaded for a view without units

    return text_of_units(amounts.items())


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in HTML, with every cell escaped."""
    from html import escape

    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Rows(tuple[Any, ...]):
    """A tuple of views that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        if not self:
            return "none"
        return table(self[0].HEADS, (each.cells for each in self))


class Changed(tuple[str, ...]):
    """
    The ids of the changed jobs, as a tuple.

    Args:
        jobs: Their ids.
        ended: The state of each job that had already ended and stayed as it was.
    """

    ended: Mapping[str, str]

    def __new__(cls, jobs: Iterable[str], ended: Mapping[str, str]) -> Changed:
        """Create it."""
        made = super().__new__(cls, jobs)
        made.ended = ended
        return made

    def __getnewargs__(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return what a copy is created from, as in another process."""
        return tuple(self), self.ended

    def __repr__(self) -> str:
        told = tuple.__repr__(self)
        if not self.ended:
            return told
        named = [f"{job} has ended: {state}" for job, state in self.ended.items()][:_SHOWN]
        rest = len(self.ended) - _SHOWN
        more = f"; {rest} more have ended" if rest > 0 else ""
        nothing = "" if self else "nothing to do: "
        return f"<{told}; {nothing}{'; '.join(named)}{more}>"
