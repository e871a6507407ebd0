"""
Names that other clients use for the methods and arguments of a client or a handle: an unknown name
raises an error that names ours.
"""

from __future__ import annotations

from typing import TypeVar

from bastion.spec.values.spec_value import misfit_error
from quota.explained import explain_methods

_T = TypeVar("_T")

_OURS = {
    "delete": "cancel",
    "describe": "job",
    "done": "status",
    "fetch_logs": "logs",
    "get": "job",
    "get_job": "job",
    "get_jobs": "jobs",
    "get_logs": "logs",
    "get_status": "status",
    "history": "record",
    "join": "wait",
    "kill": "cancel",
    "list": "jobs",
    "list_jobs": "jobs",
    "ls": "jobs",
    "machines": "pool",
    "ok": "has_succeeded",
    "ps": "jobs",
    "queue": "jobs",
    "result": "wait",
    "run": "launch",
    "show": "job",
    "state": "status",
    "stop": "cancel",
    "submit": "launch",
    "succeeded": "has_succeeded",
    "success": "has_succeeded",
    "tail": "follow",
    "tail_logs": "follow",
    "terminate": "cancel",
    "usage": "record",
}
"""
Names of other clients, and our method that does the same.

Source: sky's SDK, submitit, Ray's JobSubmissionClient, Clusterfudge's SDK, `concurrent.futures`.
"""


def no_attribute(holder: object, name: str) -> AttributeError:
    """Return the error for an attribute that `holder` does not have, with the intended method."""
    kind = type(holder)
    text = f"{kind.__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text)
    from difflib import get_close_matches

    ours = _OURS.get(name, "")
    own = getattr(holder, "__dict__", {})
    client = own.get("_client")
    if not ours and callable(getattr(type(client), name, None)):  # the handle's client has it
        return AttributeError(f"{text}; write client.{name}({own['id']!r})")
    known = [each for each in (*own, *dir(kind)) if not each.startswith("_")]
    near = [ours] if ours in known else get_close_matches(name, known, n=1)
    return AttributeError(f"{text}; did you mean {near[0]}?" if near else text)


def told_misfits(cls: type[_T]) -> type[_T]:
    """Make the methods of a class raise a SpecError for arguments that they do not have."""
    explain_methods(cls, misfit_error)
    return cls
