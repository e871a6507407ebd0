"""Charts of what one host used over its run, in the style of all charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bastion.value import value
from bastion.web.drawing.chart import INKS, digits, drawn, look_of
from bastion.web.drawing.render import iso
from bastion.web.drawing.ticks import ticks_of
from bastion.web.reading.host_use import Column, HostUseOverTime, Points

_MOST_S = 10 * 365 * 86400.0
"""No run is longer: larger values are not times."""


@value
class _Drawing:
    """The content of one chart: values are divided by `by`, bytes by the unit of the largest."""

    unit: str
    series: Callable[[Points], Mapping[str, Column]]
    by: float = 1.0
    is_bytes: bool = False
    most: float | None = None
    """The end of the axis; None: it follows the values."""


def _each(table: Mapping[int, Column]) -> Mapping[str, Column]:
    return {f"device {index}": column for index, column in table.items()}


_DRAWINGS = {
    "devices": _Drawing(unit="%", series=lambda points: _each(points.used), by=0.01, most=100.0),
    "device-memory": _Drawing(
        unit="", series=lambda points: _each(points.device_memory), is_bytes=True
    ),
    "cores": _Drawing(unit="cores", series=lambda points: {"cores": points.cores}),
    "memory": _Drawing(unit="", series=lambda points: {"memory": points.memory}, is_bytes=True),
    "traffic": _Drawing(
        unit=" a second",
        series=lambda points: {"disk": points.disk, "network": points.network},
        is_bytes=True,
    ),
}
_SIZES = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))


def _scale(drawing: _Drawing, columns: Iterable[Column]) -> tuple[float, str]:
    """Return the divisor of values, and their unit after the division."""
    if not drawing.is_bytes:
        return drawing.by, drawing.unit
    largest = max((n for column in columns for n in column if n is not None), default=0.0)
    by, name = next((each for each in _SIZES if largest >= each[0]), _SIZES[-1])
    return by, f"{name}{drawing.unit}"


def use_chart(host: HostUseOverTime, what: str, *, is_narrow: bool) -> bytes:
    """Return the chart `what` of `host`, as SVG; its times are those of the machine's clock."""
    import pygal

    drawing, at = _DRAWINGS[what], host.points.at
    series = drawing.series(host.points)
    by, unit = _scale(drawing, series.values())
    chart = pygal.XY(
        **look_of(1, INKS[:-1], is_narrow=is_narrow, is_half=True),
        stroke_style={"width": 2.2},
        y_title=unit,
        value_formatter=digits,
        show_dots=len(at) < 3,
        allow_interruptions=True,
        range=(0, drawing.most) if drawing.most is not None else None,
        min_scale=3,
        include_x_axis=True,
    )
    chart.x_labels = _labels(at, most=4 if is_narrow else 6)
    for name, column in series.items():
        points = zip(at, column, strict=True)
        chart.add(name, [(x, None if n is None else n / by) for x, n in points])
    return drawn(chart)


def _labels(at: Sequence[float], *, most: int) -> list[Mapping[str, object]]:
    """Return the marks of the time axis; samples are closer together at the start of a run."""
    if not 0 < at[-1] - at[0] < _MOST_S:  # a single sample, or a clock that jumped
        return [{"value": at[0], "label": iso(at[0])[11:19]}]
    return [{"value": tick.at, "label": tick.text} for tick in ticks_of(at[0], at[-1], most=most)]
