"""
Rows of Microsoft's Philly trace as it is published: `cluster_job_log`, JSON with attempts.

A job's work is the total duration of its attempts, on as many devices as its widest attempt had.

Source: https://github.com/msr-fiddle/philly-traces, `cluster_job_log`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

_MARKS = ("submitted_time", "attempts")


def is_of_philly(row: Mapping[str, Any]) -> bool:
    """Whether a row has the shape of the published file."""
    return all(mark in row for mark in _MARKS)


def columns_of_philly(row: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the row by our columns; what it does not contain is empty.

    A job without an attempt, or whose attempts have no end, has no duration, like one that never
    ran.
    """
    attempts = [each for each in row.get("attempts") or () if isinstance(each, dict)]
    worked_s = sum(_seconds(each.get("start_time"), each.get("end_time")) for each in attempts)
    devices = [
        sum(len(host.get("gpus", ())) for host in each.get("detail", ())) for each in attempts
    ]
    return {
        "submit": row.get("submitted_time", ""),
        "duration": worked_s or "",
        "devices": max(devices, default=0) or "",
        "name": row.get("jobid", ""),
        "project": row.get("vc", ""),
        "user": row.get("user", ""),
    }


def _seconds(start: Any, end: Any) -> float:
    """Return the seconds of one attempt; none if one of its times is missing (None in Philly)."""
    try:
        lasted = datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))
    except ValueError:
        return 0.0
    return max(0.0, lasted.total_seconds())
