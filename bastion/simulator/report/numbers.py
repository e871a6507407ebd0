"""The table of a report: one row per measure, one column per simulation; the best are marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from bastion.simulator.metrics.measures import Measures
from bastion.simulator.report.words import count, duration, percent
from bastion.simulator.workload.load import Load

Cell = Callable[[Measures], float]
Column = tuple[str, Cell, Callable[[float], str], int]
"""(title, number, format, 1 if more is better and -1 if less is)"""


def _ratio(number: float) -> str:
    return f"{number:,.2f}"


def _spread(
    title: str, of: Callable[[Measures], Mapping[str, float]], shown: Callable[[float], str]
) -> tuple[str, tuple[Column, ...]]:
    """Return mean and quantiles of one measure."""

    def part(name: str) -> Cell:
        return lambda measures: of(measures)[name]

    parts = (("mean", "mean"), ("median", "p50"), ("p90", "p90"), ("p99", "p99"))
    return title, tuple((word, part(name), shown, -1) for word, name in parts)


_GROUPS: tuple[tuple[str, tuple[Column, ...]], ...] = (
    _spread("Completion time", lambda m: m.jct_s, duration),
    _spread("Waiting", lambda m: m.wait_s, duration),
    _spread("Submission to first start", lambda m: m.response_s, duration),
    _spread("Slowdown", lambda m: m.slowdown, _ratio),
    (
        "Devices",
        (
            ("in use", lambda m: m.utilisation, percent, 0),
            ("goodput", lambda m: m.goodput, percent, 1),
            (
                "held without progress, in device-hours",
                lambda m: m.wasted_device_s / 3600,
                count,
                -1,
            ),
            ("makespan", lambda m: m.makespan_s, duration, -1),
        ),
    ),
    (
        "Fairness and promises",
        (
            ("preemptions", lambda m: m.preemptions, count, -1),
            ("fairness between projects", lambda m: m.fairness, lambda n: f"{n:.3f}", 1),
            ("starts later than guaranteed", lambda m: m.violations, count, -1),
        ),
    ),
)


def numbers_table(measures: Sequence[Measures], loads: Sequence[Load | None] = ()) -> str:
    """
    Return the section of the table.

    A cell is marked if no other simulation of the same load shows a better number.
    """
    loads = loads or [None] * len(measures)
    head = "".join(f"<th>{escape(each.label)}</th>" for each in measures)
    rows = []
    for group, columns in _GROUPS:
        span = len(measures) + 1
        rows.append(f'<tr class="group"><th colspan="{span}">{escape(group)}</th></tr>')
        for title, of, shown, better in columns:
            best = _best([of(each) for each in measures], shown, better, loads)
            cells = "".join(
                f'<td data-of="{escape(each.label)}"{" class=best" if is_best else ""}>'
                f"{escape(shown(of(each)))}</td>"
                for each, is_best in zip(measures, best, strict=True)
            )
            rows.append(f"<tr><td>{escape(title)}</td>{cells}</tr>")
    where = "" if len(set(loads)) == 1 else " among those of the same load"
    return (
        "<section><h2>In numbers</h2><p>Times are of jobs that ended with their work done. Without"
        " progress are starts, lost work, and in rounds the time from a job's end to the round's."
        f" The best of each row{where} is green.</p>"
        f'<div class="numbers"><table><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _best(
    numbers: Sequence[float],
    shown: Callable[[float], str],
    better: int,
    loads: Sequence[Load | None],
) -> list[bool]:
    """
    Return which cells show the best number of their load; none if all of a load are equal.

    `better` is 1 if more is better, -1 if less is, and 0 if neither.
    """
    texts = [shown(number) for number in numbers]
    found = [False] * len(numbers)
    for load in dict.fromkeys(loads):
        places = [at for at, each in enumerate(loads) if each == load]
        best = max(places, key=lambda at: better * numbers[at])
        if better and len({texts[at] for at in places}) > 1:
            for at in places:
                found[at] = texts[at] == texts[best]
    return found
