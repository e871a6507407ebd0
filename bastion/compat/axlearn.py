"""
Read AXLearn's job specs of version 1 as launches.

    {"version": 1, "name": "...", "command": "...", "cleanup_command": null, "env_vars": {...},
     "metadata": {"user_id": "...", "project_id": "...", "creation_time": "...",
                  "resources": {"v4": 32}, "priority": 5, "job_id": "..."}}

AXLearn runs the command on the bastion itself, and the command contacts its machines. Here the
command runs on the machines that its resources need, on every host of a slice. It is split into
words and run without a shell, as in AXLearn.

Source: axlearn/cloud/common/bastion.py, `serialize_jobspec`, and `JobMetadata` of its scheduler.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bastion import catalog
from bastion.compat.imported import Imported
from bastion.errors import SpecError
from bastion.spec import Job, Launch, Process, Resources
from bastion.spec.code import Code

VERSION = 1
_FIELDS = ("version", "name", "command", "cleanup_command", "env_vars", "metadata")
_METADATA = ("user_id", "project_id", "creation_time", "resources", "priority", "job_id")
_REQUIRED = ("name", "command", "metadata")
_TPU = re.compile(r"v\d+[a-z]*")
_PRIORITY = 5
"""The default priority. Source: AXLearn, `JobMetadata.priority`."""


def to_launch(text: str, *, user: str = "", code: Code | None = None) -> Imported:
    """
    Return the launch that a job spec describes.

    Args:
        text: The job spec, as JSON.
        user: The user who submits it here.
        code: The code that its command finds in its working directory.

    Raises:
        SpecError: It is not a job spec, or has fields without a counterpart; the error lists every
            problem.
    """
    spec = _table(text)
    problems = _unknown("", spec, _FIELDS)
    problems += [f"{name}: missing" for name in _REQUIRED if name not in spec]
    if spec.get("version") != VERSION:
        problems.append(f"version: {spec.get('version')!r} is not known; allowed: {VERSION}")
    metadata = _given(spec, "metadata", {})
    if not isinstance(metadata, dict):
        raise SpecError(*problems, f"metadata: {metadata!r} is not an object")
    problems += _unknown("metadata.", metadata, _METADATA)
    instance_type, units, more = _resources(_given(metadata, "resources", {}))
    words, wrong = _words("command", spec.get("command", "true"))
    cleaning, wrong_too = _words("cleanup_command", _given(spec, "cleanup_command", ""))
    problems += [*more, *wrong, *wrong_too]
    if problems:
        raise SpecError(*problems)
    job = Job(
        name=spec["name"],
        processes=(Process(words, resources=Resources(**units)),),
        instance_type=instance_type,
        priority=metadata.get("priority", _PRIORITY),
        env=_given(spec, "env_vars", {}),
        on_end=cleaning,
    )
    launch = Launch(
        name=spec["name"],
        project=_given(metadata, "project_id", ""),
        description=_description(metadata),
        jobs=(job,),
        code=code,
    )
    notes = _notes(metadata, instance_type, user, cleans=bool(cleaning))
    return Imported(launch=launch, notes=tuple(notes))


def _table(text: str) -> dict[str, Any]:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not JSON: {error}") from None
    if not isinstance(spec, dict):
        raise SpecError("a job spec is one JSON object")
    return spec


def _given(table: Mapping[str, Any], name: str, default: object) -> Any:
    """Return the value of a field; null is the same as none."""
    found = table.get(name)
    return default if found is None else found


def _unknown(path: str, table: Mapping[str, object], known: Sequence[str]) -> list[str]:
    allowed = ", ".join(known)
    return [f"{path}{name}: unknown; known are {allowed}" for name in table if name not in known]


def _words(field: str, command: object) -> tuple[tuple[str, ...], list[str]]:
    if not isinstance(command, str):
        return (), [f"{field}: {command!r} is not text"]
    try:
        return tuple(shlex.split(command)), []
    except ValueError as error:
        return (), [f"{field}: {str(error).lower()}: {command!r}"]


def _resources(asked: object) -> tuple[str, dict[str, int | str], list[str]]:
    """Return the instance type, or else the units that the resources name, and any problems."""
    if not isinstance(asked, dict):
        return "", {}, [f"metadata.resources: {asked!r} is not an object"]
    wrong = [
        f"metadata.resources.{name}: {units!r} is not a whole number above zero"
        for name, units in asked.items()
        if isinstance(units, bool) or not isinstance(units, int) or units < 1
    ]
    tpus = [name for name in asked if _TPU.fullmatch(name)]
    if wrong or not tpus:
        return "", dict(asked), wrong
    if len(asked) > 1:
        return "", {}, ["metadata.resources: a TPU slice and something else; submit two jobs"]
    (kind,) = tpus
    name = f"tpu-{kind}-{asked[kind]}"
    try:
        return catalog.lookup(name).name, {}, []
    except SpecError as error:
        hint = f"; {error.hint}" if error.hint else ""
        return "", {}, [f"metadata.resources.{kind}: there is no slice {name}{hint}"]


def _description(metadata: Mapping[str, Any]) -> str:
    told = {name: metadata.get(name) for name in ("job_id", "user_id", "creation_time")}
    words = ", ".join(f"{name} {text}" for name, text in told.items() if text)
    return f"from AXLearn: {words}" if words else "from AXLearn"


def _notes(
    metadata: Mapping[str, Any], instance_type: str, user: str, *, cleans: bool
) -> Iterator[str]:
    owner = metadata.get("user_id")
    if owner and user and owner != user:
        yield f"metadata.user_id: {owner} is who made it; it is submitted by {user}"
    if metadata.get("creation_time"):
        yield "metadata.creation_time: order is by when it is submitted here"
    if instance_type:
        yield f"command: runs on every host of {instance_type}, not on the bastion"
    if cleans:
        yield "cleanup_command: runs on every host when its processes are dead, not on the bastion"
