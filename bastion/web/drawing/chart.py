"""Charts, drawn by pygal as SVG: without scripts, in colors that fit a light and a dark page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from bastion.web.drawing.palette import COLORS, Palette
from bastion.web.record.summary import Slot, Summary

WIDE, NARROW, HEIGHT = 1180, 420, 300
"""In pixels; the narrow one is for phones."""
HALF, HALF_HEIGHT = 640, 280
"""Of a chart beside another one."""
SERIES = 9
"""Series that are drawn separately; all others are combined."""
INKS = (
    "#4478e6",
    "#e0703c",
    "#36a873",
    "#b061cc",
    "#cda226",
    "#2a9fac",
    "#d95788",
    "#7a8bb5",
    "#8ea634",
    "#9e7355",
)
"""The palette of the pages, between light and dark: a chart is a separate image."""
_OTHERS = "#8b93a3"
_STYLE = """inline:
.title, .legends text, .axis text, text { fill: #596273 !important; }
.axis .line, .axis .guides .line { stroke: #9aa2b133 !important; }
.plot .background, .background { fill: transparent !important; }
@media (prefers-color-scheme: dark) {
  .title, .legends text, .axis text, text { fill: #a0a8b5 !important; }
}
"""


def usage_chart(
    summary: Summary,
    palette: Palette,
    *,
    by: str,
    is_narrow: bool,
    project: str = "",
    device: str = "",
) -> bytes:
    """
    Return device-hours per part of the period as SVG, by project or user.

    An empty `project` is all projects, and an empty `device` all types of devices.
    """
    import pygal

    def name_of(slot: Slot) -> str:
        return slot.user if by == "user" else slot.project

    slots = [
        slot
        for slot in summary.slots
        if project in ("", slot.project) and device in ("", slot.device_type)
    ]
    names = _largest(slots, name_of)
    parts = round((summary.until - summary.since) / summary.step_s)
    hours = {name: [0.0] * parts for name in names}
    rest = [0.0] * parts
    for slot in slots:
        at = min(parts - 1, max(0, round((slot.at - summary.since) / summary.step_s)))
        hours.get(name_of(slot), rest)[at] += slot.device_s / 3600.0
    inks = [
        INKS[(palette(name) if by == "project" else n) % COLORS] for n, name in enumerate(names)
    ]
    chart = pygal.StackedBar(
        **look_of(parts, inks, is_narrow=is_narrow),
        y_title="device-hours",
        value_formatter=digits,
    )
    shown = "%b %d" if summary.step_s >= 3600 * 12 else "%b %d %H:%M"
    starts = (summary.since + n * summary.step_s for n in range(parts))
    chart.x_labels = [datetime.fromtimestamp(at, UTC).strftime(shown) for at in starts]
    for name in names:
        chart.add(name, hours[name])
    if any(rest):
        chart.add("others", rest)
    return drawn(chart)


def digits(number: float) -> str:
    """Return a number of an axis, with enough digits to distinguish it from its neighbors."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def look_of(
    parts: int, inks: Sequence[str], *, is_narrow: bool, is_half: bool = False
) -> dict[str, Any]:
    """
    Return the look of every chart of `parts` steps of time; series beyond `inks` are gray.

    `is_half`: another chart is beside it.
    """
    from pygal.style import Style

    return {
        "js": [],
        "width": NARROW if is_narrow else HALF if is_half else WIDE,
        "height": HALF_HEIGHT if is_half and not is_narrow else HEIGHT,
        "margin": 8,
        "margin_right": 32 if is_half else 8,
        "disable_xml_declaration": True,
        "legend_at_bottom": is_narrow or is_half,
        "show_minor_x_labels": False,
        "x_labels_major_every": max(1, parts // (3 if is_narrow else 5 if is_half else 7)),
        "truncate_label": -1,
        "truncate_legend": 11 if is_narrow else 22,
        "legend_at_bottom_columns": 3 if is_narrow else None,
        "css": ["file://style.css", "file://graph.css", _STYLE],
        "style": Style(
            background="transparent",
            plot_background="transparent",
            colors=(*inks, _OTHERS),
            opacity=".95",
            font_family="system-ui, sans-serif",
            label_font_size=13,
            major_label_font_size=13,
            legend_font_size=14,
        ),
    }


def drawn(chart: Any) -> bytes:
    """Return the SVG of `chart`, without pygal's tooltip script, which an image would not run."""
    from pygal.etree import etree

    made = chart.render_tree()
    for parent in made.iter():
        for script in [child for child in parent if str(child.tag).endswith("script")]:
            parent.remove(script)
    svg: bytes = etree.tostring(made)  # pygal uses lxml if it is installed
    return svg


def _largest(slots: Sequence[Slot], name_of: Callable[[Slot], str]) -> list[str]:
    totals: Counter[str] = Counter()
    for slot in slots:
        totals[name_of(slot)] += slot.device_s  # type: ignore[assignment]
    return sorted(name for name, _ in totals.most_common(SERIES))
