"""The page of a study: tables, charts and all their resources, in one file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from bastion.simulator.engine.result import Result
from bastion.simulator.metrics.measures import Measures
from bastion.simulator.report.charts import Chart
from bastion.simulator.report.numbers import numbers_table
from bastion.simulator.workload.load import Load

PHILLY = (
    "The Philly trace: M. Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN"
    " Training Workloads, USENIX ATC 2019; published by Microsoft Research under CC BY 4.0."
)
_SECTIONS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "load": (
        "Against load",
        "The other charts show the largest load.",
        ("load-completion", "load-utilisation"),
    ),
    "cdf": (
        "How long jobs take and wait",
        "The fraction of jobs that took, or waited, at most this long.",
        ("cdf-completion", "cdf-waiting", "cdf-responsiveness", "cdf-slowdown"),
    ),
    "utilisation": ("Devices in use", "Of the devices that existed at the time.", ("utilisation",)),
    "goodput": (
        "Goodput",
        "Devices whose work was kept, of those that existed: without starts and lost work.",
        ("goodput",),
    ),
    "queue": ("The queue", "Waiting jobs.", ("queue",)),
    "project": (
        "By project",
        "The projects that held most devices.",
        ("project-waiting", "project-slowdown"),
    ),
    "user": ("By user", "The users who held most devices.", ("user-waiting", "user-slowdown")),
    "size": (
        "By size",
        "Jobs by the number of their devices.",
        ("size-waiting", "size-slowdown"),
    ),
}
_RATE = re.compile(r"[\d.e+-]+ jobs? an hour")


def page(
    results: Sequence[Result],
    measures: Sequence[Measures],
    charts: Mapping[str, Chart],
    loads: Sequence[Load | None] = (),
) -> str:
    """Return the HTML of a study; it loads nothing from outside."""
    import vl_convert

    source = results[0].settings.get("workload", "")
    sections = [numbers_table(measures, loads), *_sections(charts, results), _settings(results)]
    sections += [_violations(results)] if any(each.violations for each in results) else []
    partial = [each.label for each in results if each.is_partial]
    specs = {name: chart.to_dict() for name, chart in charts.items()}
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape("What the scheduler would do"),
        subtitle=escape(_subtitle(results[0], loads)),
        warning=_warning(partial),
        sections="\n".join(sections),
        footer=escape(f"Made by bastion simulate. {PHILLY if 'philly' in source else ''}"),
        library=_bundle(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")),
        charts=json.dumps(specs).replace("</", "<\\/"),
    )


def _subtitle(first: Result, loads: Sequence[Load | None]) -> str:
    source = first.settings.get("workload", "") or "a workload"
    jobs = first.settings.get("jobs", "")
    found = list(dict.fromkeys(load for load in loads if load is not None))
    if len(found) > 1:
        several = ", ".join(map(str, found)) if len(found) <= 4 else f"{found[0]} to {found[-1]}"
        source = _RATE.sub(lambda _: f"at loads of {several}", source)
    noun = "job" if jobs == "1" else "jobs"
    return f"{jobs} {noun} of {source} on {first.settings.get('machines', '')}"


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


def headings(results: Sequence[Result]) -> Mapping[str, str]:
    """Return the heading of each chart on the page, by its name, for use without the page."""
    found = {name: title for title, _, names in _SECTIONS.values() for name in names}
    for at, result in enumerate(results):
        found |= dict.fromkeys((f"pool-{at}", f"machines-{at}"), _pool_under(result))
    return found


def _pool_under(result: Result) -> str:
    return f"The pool under {result.label}"


def _sections(charts: Mapping[str, Chart], results: Sequence[Result]) -> list[str]:
    """Return the charts, related ones side by side."""
    found = []
    for title, text, names in _SECTIONS.values():
        shown = [name for name in names if name in charts]
        if shown:
            found.append(_section(title, text, shown))
    for at, result in enumerate(results):
        if f"pool-{at}" in charts:
            text = "Which project held devices, and how full each machine was."
            both = [f"pool-{at}", f"machines-{at}"]
            found.append(_section(_pool_under(result), text, both, is_wide=True))
    return found


def _section(title: str, text: str, names: Sequence[str], *, is_wide: bool = False) -> str:
    kind = "one" if is_wide or len(names) == 1 else "two"
    places = "".join(f'<div class="chart" id="{name}"></div>' for name in names)
    return (
        f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>"
        f'<div class="{kind}">{places}</div></section>'
    )


def _settings(results: Sequence[Result]) -> str:
    """Return the settings that all simulations share, then those of each."""
    keys = list(dict.fromkeys(key for each in results for key in each.settings))
    shared: dict[str, str] = {}
    own: list[str] = []
    for key in keys:
        found = {each.settings.get(key, "") for each in results}
        if len(found) == 1:
            shared |= dict.fromkeys([key], found.pop())
        else:
            own.append(key)
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(text)}</dd>" for k, text in shared.items())
    text = f"<section><h2>Settings</h2><dl>{rows}</dl>"
    for each in results if own else ():
        told = "; ".join(f"{key}: {each.settings[key]}" for key in own if each.settings.get(key))
        text += f'<p class="own"><b>{escape(each.label)}</b> {escape(told)}</p>'
    return text + "</section>"


def _violations(results: Sequence[Result]) -> str:
    lines = [f"{each.label}: {line}" for each in results for line in each.violations[:50]]
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return (
        "<section><h2>Late starts</h2><p>Starts that were promised within a share and happened"
        f" after the bound in the quota file.</p><details><summary>{len(lines)} of them</summary>"
        f"<ul>{items}</ul></details></section>"
    )
