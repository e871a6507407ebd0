"""Charts of what one host used over its run, in the look of all charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bastion.value import value
from bastion.web.pages.chart import INKS, drawn, look_of
from bastion.web.pages.render import iso
from bastion.web.reading.host_use import Column, HostUseOverTime, Points

_DAY_S = 86400.0


@value
class _Drawing:
    """What one chart draws: values are divided by `by` and told as `form` says."""

    unit: str
    series: Callable[[Points], Mapping[str, Column]]
    by: float = 1.0
    form: str = "{:,.1f}"
    most: float | None = None
    """Where the axis ends; None: with the values."""


def _each(table: Mapping[int, Column]) -> Mapping[str, Column]:
    return {f"device {index}": column for index, column in table.items()}


_DRAWINGS = {
    "devices": _Drawing(
        unit="%", series=lambda points: _each(points.used), by=0.01, form="{:.0f}", most=100.0
    ),
    "device-memory": _Drawing(
        unit="GiB", series=lambda points: _each(points.device_memory), by=2**30
    ),
    "cores": _Drawing(unit="cores", series=lambda points: {"cores": points.cores}),
    "memory": _Drawing(unit="GiB", series=lambda points: {"memory": points.memory}, by=2**30),
    "traffic": _Drawing(
        unit="MiB a second",
        series=lambda points: {"disk": points.disk, "network": points.network},
        by=2**20,
    ),
}


def use_chart(host: HostUseOverTime, what: str, *, is_narrow: bool) -> bytes:
    """The chart called `what` of `host`, as SVG; its times are those of the machine's clock."""
    import pygal

    drawing, at = _DRAWINGS[what], host.points.at
    chart = pygal.Line(
        **look_of(len(at), INKS[:-1], is_narrow=is_narrow, is_half=True),
        stroke_style={"width": 2.2},
        y_title=drawing.unit,
        value_formatter=drawing.form.format,
        show_dots=len(at) < 3,
        allow_interruptions=True,
        range=(0, drawing.most) if drawing.most is not None else None,
        min_scale=3,
        include_x_axis=True,
    )
    is_long = at[-1] - at[0] >= _DAY_S
    chart.x_labels = [
        iso(moment)[5:16].replace("T", " ") if is_long else iso(moment)[11:19] for moment in at
    ]
    for name, column in drawing.series(host.points).items():
        chart.add(name, [None if n is None else n / drawing.by for n in column])
    return drawn(chart)
