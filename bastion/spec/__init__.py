"""
The specs that users write: a launch, its jobs, their processes, and their resources.

Every value is checked when it is created, and an error lists every problem. This package must not
know which machines exist, what a project may hold, or where anything is stored.

Read `launch` first. A job in it has `replicas`, `resources`, filters for machines (`where`), `code`
with its `python_env`, variables and references to a `secret`, and dependencies (`after`); `notify`
has its notifications. `request` is the part that the scheduler uses. `arrays/` is for launches of
many tasks, and `task_job` is the job of one task. `names` are those that users choose, and
`values/` is what all of these are built from.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bastion.spec.after import After
    from bastion.spec.arrays.array import Array
    from bastion.spec.arrays.indices import Indices
    from bastion.spec.arrays.sweep import Choice, LogUniform, Sample, Setting, Sweep, Uniform
    from bastion.spec.arrays.task import task_id, tasks_named, tasks_of_id
    from bastion.spec.code import BundleRef, Code, CodeRef, GitRef, ImageRef
    from bastion.spec.launch import Job, Launch, Process, job_ids
    from bastion.spec.names import check_name, job_id
    from bastion.spec.notify import Notify
    from bastion.spec.python_env import PythonEnv, python_problems
    from bastion.spec.request import Request, request_of
    from bastion.spec.resources import Resources
    from bastion.spec.secret import Secret, secret_of
    from bastion.spec.task_job import job_of_task, parameters
    from bastion.spec.values.quantity import bytes_of, seconds_of, text_of_bytes, text_of_seconds
    from bastion.spec.where import Where

__all__ = [
    "After",
    "Array",
    "BundleRef",
    "Choice",
    "Code",
    "CodeRef",
    "GitRef",
    "ImageRef",
    "Indices",
    "Job",
    "Launch",
    "LogUniform",
    "Notify",
    "Process",
    "PythonEnv",
    "Request",
    "Resources",
    "Sample",
    "Secret",
    "Setting",
    "Sweep",
    "Uniform",
    "Where",
    "bytes_of",
    "check_name",
    "job_id",
    "job_ids",
    "job_of_task",
    "parameters",
    "python_problems",
    "request_of",
    "seconds_of",
    "secret_of",
    "task_id",
    "tasks_named",
    "tasks_of_id",
    "text_of_bytes",
    "text_of_seconds",
]

_PLACES = {
    "after": ("After",),
    "arrays.array": ("Array",),
    "code": (
        "BundleRef",
        "Code",
        "CodeRef",
        "GitRef",
        "ImageRef",
    ),
    "arrays.indices": ("Indices",),
    "launch": (
        "Job",
        "Launch",
        "Process",
        "job_ids",
    ),
    "names": (
        "check_name",
        "job_id",
    ),
    "notify": ("Notify",),
    "python_env": (
        "PythonEnv",
        "python_problems",
    ),
    "values.quantity": (
        "bytes_of",
        "seconds_of",
        "text_of_bytes",
        "text_of_seconds",
    ),
    "request": (
        "Request",
        "request_of",
    ),
    "resources": ("Resources",),
    "secret": (
        "Secret",
        "secret_of",
    ),
    "arrays.sweep": (
        "Choice",
        "LogUniform",
        "Sample",
        "Setting",
        "Sweep",
        "Uniform",
    ),
    "arrays.task": ("task_id", "tasks_named", "tasks_of_id"),
    "task_job": ("job_of_task", "parameters"),
    "where": ("Where",),
}
"""Imported on first use: a command that only looks at jobs creates no spec."""
_HOMES = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
