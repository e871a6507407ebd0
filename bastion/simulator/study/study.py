"""
`Study`: simulations side by side, for a notebook: data frames, charts and the report.

    from bastion.simulator import simulate
    study = simulate("trace.csv", machines="64x8", order=["fifo", "las"])
    study.summary
    study.report("study.html")
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bastion.errors import SpecError
from bastion.simulator.engine.result import JobResult
from bastion.simulator.metrics.measures import Measures, cdfs_of, measured
from bastion.simulator.study.point import Runs

if TYPE_CHECKING:
    import pandas as pd


class Study:
    """
    The outcome of some points.

    Args:
        runs: Their labels distinguish them.
    """

    def __init__(self, runs: Runs) -> None:
        self.points = list(runs.points)
        self.results = list(runs.results)
        self.failed = {label: str(error) for label, error in runs.failed.items()}
        """Why a simulation gave no result, by its label; the others are complete."""
        self.left_out = list(runs.left_out)
        """Labels of the simulations that an interrupt left without a result."""

    def __repr__(self) -> str:
        told = ", ".join(result.label for result in self.results)
        return f"Study({told}{'; partial' if self.is_partial else ''})"

    @cached_property
    def measures(self) -> list[Measures]:
        """The numbers of every simulation."""
        return [measured(result) for result in self.results]

    @property
    def is_partial(self) -> bool:
        """Whether it was interrupted."""
        return bool(self.left_out) or any(result.is_partial for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """Return settings and measures, for JSON."""
        return {
            "settings": dict(self.results[0].settings) if self.results else {},
            "is_partial": self.is_partial,
            "failed": self.failed,
            "left_out": self.left_out,
            "simulations": [each.as_json() for each in self.measures],
        }

    def jobs_json(self) -> dict[str, Any]:
        """Return a row for each job of every simulation, and the CDFs of its measures, for JSON."""
        found = []
        for result in self.results:
            rows = [_row_of(each) for each in result.jobs]
            found.append({"label": result.label, "cdf": cdfs_of(result), "jobs": rows})
        return {"is_partial": self.is_partial, "simulations": found}

    @cached_property
    def charts(self) -> Mapping[str, Any]:
        """Return its Altair charts, by name."""
        from bastion.simulator.report.charts import charts_of

        loads = [point.load for point in self.points]
        names = [point.setup.label.partition(" at ")[0] for point in self.points]
        return charts_of(self.results, self.measures, loads, names)

    def report(self, path: str | Path) -> None:
        """Write one self-contained HTML page."""
        from bastion.simulator.report.page import page

        loads = [point.load for point in self.points]
        text = page(self.results, self.measures, self.charts, loads)
        Path(path).write_text(text, encoding="utf-8")

    def export(self, folder: str | Path, form: str = "png") -> list[Path]:
        """Write every chart into `folder` as `png`, `svg` or `pdf`; return the files."""
        from bastion.simulator.report.export import export
        from bastion.simulator.report.page import headings

        return export(self.charts, folder, form, headings=headings(self.results))

    @property
    def summary(self) -> pd.DataFrame:
        """One row per simulation, one column per measure."""
        rows = []
        for each in self.measures:
            row: dict[str, Any] = {}
            for name, number in each.as_json().items():
                if name.startswith("by_"):
                    continue
                if isinstance(number, Mapping):
                    row.update({f"{name}_{part}": value for part, value in number.items()})
                else:
                    row[name] = number
            rows.append(row)
        return _pandas().DataFrame(rows).set_index("label")

    @property
    def jobs(self) -> pd.DataFrame:
        """One row per job and simulation."""
        rows = [
            {"policy": result.label, **_row_of(each)}
            for result in self.results
            for each in result.jobs
        ]
        return _pandas().DataFrame(rows)

    @property
    def over_time(self) -> pd.DataFrame:
        """Devices and jobs at every moment at which anything changed."""
        pandas = _pandas()
        frames = []
        for result in self.results:
            columns = {"time_s": list(result.series.times)}
            columns |= {name: list(each) for name, each in result.series.columns.items()}
            frames.append(pandas.DataFrame({"policy": result.label, **columns}))
        return pandas.concat(frames, ignore_index=True)


def _row_of(job: JobResult) -> dict[str, Any]:
    """Return the request and outcome of a job, without the recorded stops of a replay."""
    asked = job.job._asdict()
    del asked["stops"]
    return asked | {
        "first_start_s": job.first_start,
        "end_s": job.ended_at,
        "outcome": job.outcome,
        "preemptions": job.preemptions,
        "lost_s": job.lost_s,
        "is_tracked": job.is_tracked,
        "reason": job.reason,
    }


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise SpecError(
            "data frames need pandas, which is not installed",
            hint="pip install 'bastion-orchestrator[sim]'",
        ) from None
    return pandas
