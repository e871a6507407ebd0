"""
How long logs and final records of jobs stay in the bucket: the table `keep` of the configuration.

Without it they stay permanently. The record, which answers questions about the past, has no age:
this table does not affect it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, field_validator

from bastion.errors import SpecError
from bastion.spec.values.quantity import seconds_of, text_of_seconds
from bastion.value import value

DAY_S = 86400.0
LEAST_LOGS_S = DAY_S
LEAST_RESULTS_S = 60 * DAY_S
"""Twice the 30 days after which no fencing can need a final record any longer."""


@value
class Keep:
    """Ages, counted from when the final record of a job was written; None: without limit."""

    logs_s: float | None = None
    """Age of logs, output of commands, and samples of use."""
    results_s: float | None = None
    """Age of final records; never shorter than that of logs."""


class KeepTable(BaseModel):
    """The table as written."""

    model_config = ConfigDict(extra="forbid")

    logs: float | str | None = None
    results: float | str | None = None

    @field_validator("logs", "results")
    @classmethod
    def _seconds(cls, written: float | str | None) -> float | None:
        return None if written is None else seconds_of("duration", written)

    def made(self) -> Keep:
        """
        Return the ages.

        Raises:
            SpecError: One is too short, or final records would go before logs.
        """
        logs_s = None if self.logs is None else float(self.logs)
        results_s = None if self.results is None else float(self.results)
        found = []
        for name, age_s, least_s in (
            ("logs", logs_s, LEAST_LOGS_S),
            ("results", results_s, LEAST_RESULTS_S),
        ):
            if age_s is not None and age_s < least_s:
                shown = text_of_seconds(age_s)
                least = f"{least_s / DAY_S:.0f}d"
                found.append(f"keep.{name}: {shown} is too short; must be at least {least}")
        if results_s is not None and (logs_s is None or logs_s > results_s):
            shown = "for ever" if logs_s is None else text_of_seconds(logs_s)
            found.append(
                f"keep.logs: {shown} is longer than keep.results, which is"
                f" {text_of_seconds(results_s)}; logs are found by the final record of their job"
            )
        if found:
            raise SpecError(*found)
        return Keep(logs_s=logs_s, results_s=results_s)
