"""
Schemas of stored records: an older record is migrated step by step, a newer one is refused.

Every stored record carries `schema: int`. A step takes the plain JSON of schema n and returns that
of schema n + 1. It is pure, uses no class of the current code, and never changes once released. The
next commit writes a migrated record in the current schema, and an older Bastion then refuses it. To
go back, run `bastion restore` with a copy that the older Bastion wrote.
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
"""A record as parsed JSON."""
Step = Callable[[Plain], Plain]

_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:\s*(\d{1,9})\s*[,}]')
"""
The schema at the start of a record, where our encoder puts it, so a root of many megabytes is not
parsed to find it.
"""


@value
class Schema:
    """
    The newest schema of one kind of record, and the migrations to it.

    A step that cannot migrate a record raises `RecordError`, which says what to do first.
    `steps[n]` migrates schema n to schema n + 1. Records older than the first step cannot be read.
    """

    current: int
    steps: Mapping[int, Step] = field(default_factory=dict)

    def current_bytes(self, data: bytes, *, key: str) -> bytes:
        """
        Return `data` in the current schema; unchanged if it is current or not a record at all.

        Raises:
            RecordError: Its schema is unknown to this Bastion, or it cannot be migrated in its
                current state.
        """
        found = schema_of(data)
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
                    hint="start a Bastion between the two versions once: it upgrades the record",
                )
            try:
                record = {**step(record), "schema": schema + 1}
            except RecordError as error:
                raise RecordError(f"{key}: {error.message}", hint=error.hint) from error
            except (AttributeError, KeyError, TypeError) as error:
                raise RecordError(
                    f"{key}: is not a record of schema {schema}: {error!r}"
                ) from error
        return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def schema_of(data: bytes) -> int | None:
    """Return the schema that `data` states, or None."""
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
    Migrate schema 1 to 2: the objects of agents move below their pools.

    A machine of schema 1 uses keys that are no longer read. It would count as silent, and its jobs
    as lost.
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
    """Migrate schema 2 to 3: the next leader gives the bucket its own name."""
    return old


def _without_gangs(old: Plain) -> Plain:
    """Migrate schema 3 to 4: each job of a gang names all of them; both forms can be read."""
    return old


ROOT = Schema(current=4, steps={1: _without_machines, 2: _without_name, 3: _without_gangs})
"""Schemas of `state/root.json` and its copies under `state/snap/`."""
