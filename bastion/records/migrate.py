"""
Schemas of stored records: what an older Bastion wrote is brought up step by step, what a newer one
wrote is refused.

Every stored record carries `schema: int`. A step takes the plain JSON of schema n and gives that of
schema n + 1; it is pure, knows no class of today's code, and is never changed once released. What
was migrated is written in today's schema by the next commit, so an older Bastion refuses it then:
going back is `bastion restore` of a copy that the older one wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from bastion.errors import RecordError
from bastion.value import value
from bastion.version import VERSION

Plain = dict[str, Any]
"""A record as JSON has it."""
Step = Callable[[Plain], Plain]

_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:\s*(\d{1,9})\s*[,}]')
"""Our own writer puts the schema first: a root of many megabytes is not parsed to find it."""


@value
class Schema:
    """
    The newest schema of one kind of record, and the steps that lead to it.

    A step that cannot bring a record up raises `RecordError`, which says what to do first.

    `steps[n]` makes schema n + 1 of schema n. Records older than the first step cannot be read.
    """

    current: int
    steps: Mapping[int, Step] = field(default_factory=dict)

    def current_bytes(self, data: bytes, *, key: str) -> bytes:
        """
        `data` in today's schema; `data` itself when it is, or is no record at all.

        Raises:
            RecordError: It is of a schema that this Bastion does not know, or cannot be brought up
                to today's as it is.
        """
        found = _schema_of(data)
        if found is None or found == self.current:
            return data
        if found > self.current:
            raise RecordError(
                f"{key}: is of schema {found}, and Bastion {VERSION} knows schemas up to"
                f" {self.current}",
                hint="a newer Bastion wrote it: run that version or a later one here",
            )
        try:
            record: Plain = json.loads(data)
        except (ValueError, RecursionError):
            return data  # decoding it reports what is wrong
        for schema in range(found, self.current):
            step = self.steps.get(schema)
            if step is None:
                oldest = min(self.steps, default=self.current)
                raise RecordError(
                    f"{key}: is of schema {found}, and Bastion {VERSION} knows schemas from"
                    f" {oldest} to {self.current}",
                    hint="start a Bastion between the two versions once: it brings the record up",
                )
            try:
                record = {**step(record), "schema": schema + 1}
            except RecordError as error:
                raise RecordError(f"{key}: {error.message}", hint=error.hint) from error
            except (AttributeError, KeyError, TypeError) as error:
                raise RecordError(f"{key}: is no record of schema {schema}: {error!r}") from error
        return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def _schema_of(data: bytes) -> int | None:
    """The schema that `data` says it is of; None when it says none."""
    head = _HEAD.match(data)
    if head is not None:
        return int(head[1])
    try:
        schema = json.loads(data)["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return schema if type(schema) is int else None


def _without_machines(old: Plain) -> Plain:
    """
    Schema 1 to 2: what agents write and obey lies below their pools.

    A machine of schema 1 writes and listens at names that are not looked at any more: it would be
    taken for silent, and its jobs with it.
    """
    machines = sorted(machine["name"] for machine in old.get("machines", {}).values())
    jobs = sorted(job["id"] for job in old.get("jobs", {}).values() if job.get("attempt"))
    if not machines and not jobs:
        return old
    some = ", ".join([*machines, *jobs][:3])
    raise RecordError(
        f"has {len(machines)} machines and {len(jobs)} jobs on them ({some}) at the names of an"
        f" older Bastion, and Bastion {VERSION} uses others",
        hint="let the older Bastion end what runs: give every pool max_machines = 0, wait until"
        " bastion machines shows none, then start this one; the queue is kept",
    )


def _without_name(old: Plain) -> Plain:
    """Schema 2 to 3: the bucket has a name of its own, which the next bastion that leads gives."""
    return old


ROOT = Schema(current=3, steps={1: _without_machines, 2: _without_name})
"""Of `state/root.json` and its copies under `state/snap/`."""
