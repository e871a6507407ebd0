"""Writes charts as PNG, SVG or PDF, with only the library's own fonts and code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from bastion.errors import SpecError
from bastion.simulator.report.charts import Chart

Format = Literal["png", "svg", "pdf"]
WIDTH = 760
"""Of a chart that is not on a page."""
FORMATS: tuple[Format, ...] = get_args(Format)


def export(
    charts: Mapping[str, Chart], folder: str | Path, form: str, *, headings: Mapping[str, str]
) -> list[Path]:
    """
    Write every chart into `folder` and return the files.

    Args:
        charts: By name, which is also the name of the file.
        folder: Created if necessary.
        form: One of `FORMATS`.
        headings: The heading of a chart, by its name.

    Raises:
        SpecError: The format is none of `FORMATS`.
    """
    import vl_convert

    if form not in FORMATS:
        raise SpecError(f"export: {form!r} is unknown, allowed are {', '.join(FORMATS)}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in charts.items():
        path = folder / f"{name}.{form}"
        spec = chart.to_dict()
        if name in headings:
            spec["title"] = {"text": headings[name], "anchor": "start", "offset": 12}
        if spec.get("width") == "container":
            spec["width"] = WIDTH
        if form == "svg":
            path.write_text(vl_convert.vegalite_to_svg(spec))
        elif form == "pdf":
            path.write_bytes(vl_convert.vegalite_to_pdf(spec))
        else:
            path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
        written.append(path)
    return written
