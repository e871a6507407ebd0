"""
Rows of Microsoft's Philly trace as it is published: `cluster_job_log`, JSON with attempts.

A job's work is the total duration of its attempts, on as many devices as its widest attempt had.

Source: https://github.com/msr-fiddle/philly-traces, `cluster_job_log`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bastion.simulator.workload.columns import date_of

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
    attempts = _objects(row.get("attempts"))
    worked_s = sum(_seconds(each.get("start_time"), each.get("end_time")) for each in attempts)
    devices = [
        sum(len(_list(host.get("gpus"))) for host in _objects(each.get("detail")))
        for each in attempts
    ]
    return {
        "submit": row.get("submitted_time", ""),
        "duration": worked_s or "",
        "devices": max(devices, default=0) or "",
        "name": row.get("jobid", ""),
        "project": row.get("vc", ""),
        "user": row.get("user", ""),
    }


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _objects(found: Any) -> list[dict[str, Any]]:
    return [each for each in _list(found) if isinstance(each, dict)]


def _seconds(start: Any, end: Any) -> float:
    """Return the seconds of one attempt; none if one of its times is missing (None in Philly)."""
    try:
        return max(0.0, date_of(end) - date_of(start))
    except ValueError:
        return 0.0
