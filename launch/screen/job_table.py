"""The columns of a table of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from launch.screen.render import Column, Output, amounts, clip

if TYPE_CHECKING:
    from bastion.client import JobView
    from bastion.client.look.job_line import JobLine

    Listed = JobView | JobLine


GONE = "its machine has ended; it starts again after bastion up"


def job_columns(
    out: Output, as_of: float, jobs: Sequence[Listed], *, has_no_machines: bool = False
) -> list[Column[Listed]]:
    """Return the columns for `jobs`, with ages as of `as_of`."""
    from bastion.spec.values.quantity import text_of_seconds

    def why(job: Listed) -> str:
        return why_of(job, has_no_machines=has_no_machines)

    def age(job: Listed) -> str:
        return text_of_seconds(max(0.0, as_of - job.submitted_at))

    parameters = Column(title="PARAMETERS", text=parameters_of)
    return [
        Column(title="JOB", text=id_of),
        Column(title="STATE", text=lambda job: job.state, is_state=True),
        Column(title="PROJECT", text=lambda job: job.project),
        Column(title="USER", text=lambda job: job.user),
        Column(title="RESOURCES", text=asks_of),
        *([parameters] if any(job.parameters for job in jobs) else ()),
        Column(title="AGE", text=age),
        Column(title="PRIORITY", text=lambda job: str(job.priority), wide=True),
        Column(title="CLASS", text=lambda job: job.job_class, wide=True),
        Column(title="ATTEMPT", text=lambda job: str(job.attempt), wide=True),
        Column(title="MACHINES", text=lambda job: ",".join(job.machines), wide=True),
        Column(
            title="WHY",
            text=lambda job: why(job) if out.format == "wide" else clip(why(job)),
            full=why,
        ),
    ]


def id_of(job: Listed) -> str:
    """Return the id of a job."""
    return job.id


def why_of(job: Listed, *, has_no_machines: bool = False) -> str:
    """
    Return the reason of a job, without repeating its state.

    Once all machines have ended, the reason that the last bastion gave for a running job is void.
    """
    if has_no_machines and job.state in ("starting", "running"):
        return GONE
    return job.text.removeprefix(f"{job.state}: ")


def asks_of(job: Listed) -> str:
    """Return the total resources of a job; for an array, the resources of each task."""
    asked = amounts(job.units)
    if job.replica_range is not None:
        asked = f"{asked} ({job.replicas_text})".strip()
    return f"{asked} per task" if job.is_array and asked else asked


def parameters_of(job: Listed) -> str:
    """Return the sweep parameters of a job, such as `lr=0.1 seed=2`."""
    return " ".join(f"{name}={setting}" for name, setting in job.parameters.items())
