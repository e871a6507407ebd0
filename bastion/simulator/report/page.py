"""The page of a study: tables, charts and everything they need, in one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from bastion.simulator.engine.result import Result
from bastion.simulator.metrics.measures import Measures
from bastion.simulator.report.charts import Chart
from bastion.simulator.report.words import count, duration, percent

PHILLY = (
    "The Philly trace: M. Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN"
    " Training Workloads, USENIX ATC 2019; published by Microsoft Research under CC BY 4.0."
)
_TITLES = {
    "load": ("Completion time against load", "The other charts show the largest load."),
    "completion": (
        "How long jobs take",
        "How many of the jobs had ended, and had waited no longer, after so much time.",
    ),
    "utilisation": ("Devices in use", "Of those that stood at the time."),
    "queue": ("The queue", "Jobs that wait."),
    "projects": ("By project", "The projects that held most devices."),
    "sizes": ("By size", "Jobs by the number of their devices."),
}

Cell = Callable[[Measures], float]


_COLUMNS: tuple[tuple[str, Cell, Callable[[float], str], int], ...] = (
    ("completion time, mean", lambda m: m.jct_s["mean"], duration, -1),
    ("completion time, median", lambda m: m.jct_s["p50"], duration, -1),
    ("completion time, p90", lambda m: m.jct_s["p90"], duration, -1),
    ("completion time, p99", lambda m: m.jct_s["p99"], duration, -1),
    ("waiting, mean", lambda m: m.wait_s["mean"], duration, -1),
    ("submission to first start, mean", lambda m: m.response_s["mean"], duration, -1),
    ("slowdown, mean", lambda m: m.slowdown["mean"], lambda n: f"{n:.2f}", -1),
    ("devices in use", lambda m: m.utilisation, percent, 1),
    ("goodput", lambda m: m.goodput, percent, 1),
    ("preemptions", lambda m: m.preemptions, count, -1),
    (
        "wasted by starts and lost work",
        lambda m: m.wasted_device_s / 3600,
        lambda n: f"{n:,.0f} device-h",
        -1,
    ),
    ("makespan", lambda m: m.makespan_s, duration, -1),
    ("fairness between projects", lambda m: m.fairness, lambda n: f"{n:.3f}", 1),
    ("starts later than guaranteed", lambda m: m.violations, count, -1),
)


def page(
    results: Sequence[Result], measures: Sequence[Measures], charts: Mapping[str, Chart]
) -> str:
    """Return the HTML of a study; it loads nothing from anywhere."""
    import vl_convert

    first = results[0]
    source = first.settings.get("workload", "")
    sections = [_table(measures), *(_section(name, results) for name in charts), _settings(first)]
    sections += [_violations(results)] if any(each.violations for each in results) else []
    partial = [each.label for each in results if each.is_partial]
    specs = {name: chart.to_dict() for name, chart in charts.items()}
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape("What the scheduler would do"),
        subtitle=escape(
            f"{first.settings.get('jobs', '')} jobs of {source or 'a workload'} on"
            f" {first.settings.get('machines', '')}"
        ),
        warning=_warning(partial),
        sections="\n".join(sections),
        footer=escape(f"Made by bastion simulate. {PHILLY if 'philly' in source else ''}"),
        library=_bundle(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")),
        charts=json.dumps(specs).replace("</", "<\\/"),
    )


def _bundle(script: str) -> str:
    return script.replace("</script", "<\\/script")


def _warning(partial: Sequence[str]) -> str:
    if not partial:
        return ""
    names = escape(", ".join(partial))
    return (
        '<section class="warning"><h2>Partial</h2><p>It was interrupted: jobs that had not ended'
        f" are missing from the numbers of {names}.</p></section>"
    )


def _table(measures: Sequence[Measures]) -> str:
    """One row a measure, one column a policy."""
    head = "".join(f"<th>{escape(each.label)}</th>" for each in measures)
    rows = []
    for title, of, shown, better in _COLUMNS:
        numbers = [of(each) for each in measures]
        best = max(numbers) if better > 0 else min(numbers)
        tells = len(measures) > 1 and max(numbers) != min(numbers)
        cells = (
            f"<td{' class=best' if tells and number == best else ''}>{escape(shown(number))}</td>"
            for number in numbers
        )
        rows.append(f"<tr><td>{escape(title)}</td>{''.join(cells)}</tr>")
    return (
        "<section><h2>In numbers</h2><p>Times are of jobs that ended with their work done."
        " The best of each row is green.</p>"
        f"<table><thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></section>"
    )


def _section(name: str, results: Sequence[Result]) -> str:
    if name.startswith("pool-"):
        label = results[min(int(name[5:]), len(results) - 1)].label
        title, text = f"The pool under {label}", "Which project held devices, and each machine."
    else:
        title, text = _TITLES[name]
    return (
        f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>"
        f'<div class="chart" id="{name}"></div></section>'
    )


def _settings(result: Result) -> str:
    rows = "".join(
        f"<dt>{escape(key)}</dt><dd>{escape(text)}</dd>" for key, text in result.settings.items()
    )
    return f"<section><h2>Settings</h2><dl>{rows}</dl></section>"


def _violations(results: Sequence[Result]) -> str:
    lines = [f"{each.label}: {line}" for each in results for line in each.violations[:50]]
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return (
        "<section><h2>Late starts</h2><p>Starts that were promised within a share and came after"
        f" the bound of the quota file.</p><details><summary>{len(lines)} of them</summary>"
        f"<ul>{items}</ul></details></section>"
    )
