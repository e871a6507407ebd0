"""Cloud machines whose agents have another build than the bastion: upgraded between jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from bastion.machine import Build, MachinePhase, Upgrade
from bastion.service.draft.root_draft import Draft

AT_ONCE = 8
"""Machines of one pool that are upgraded at a time: a build that fails must not end them all."""
PATIENCE_S = 1800.0
"""Time after which an upgrade is requested again: a machine may install packages for minutes."""


def upgrade_machines(draft: Draft, builds: Mapping[str, Build], in_use: Collection[str]) -> None:
    """
    Tell idle machines to switch to the build of their pool in `builds`.

    A job that is placed on one of them in the meantime runs first: the agent upgrades when it has
    none. Agents that promise no heartbeat are too old to support upgrades.
    """
    outdated = [
        machine
        for machine in draft.machines.values()
        if machine.pool in builds
        and machine.heartbeat_s
        and machine.build not in ("", builds[machine.pool].digest)
    ]
    asked = [each for each in outdated if _is_under_way(each.upgrade_asked_at, draft.now)]
    under_way = Counter(machine.pool for machine in asked)
    for machine in outdated:
        is_free = machine.phase is MachinePhase.READY and machine.name not in in_use
        if not is_free or machine in asked or under_way[machine.pool] >= AT_ONCE:
            continue
        under_way[machine.pool] += 1
        draft.instruct(machine.name, Upgrade(build=builds[machine.pool]))
        draft.put_machine(replace(machine, upgrade_asked_at=draft.now))


def _is_under_way(asked_at: float | None, now: float) -> bool:
    return asked_at is not None and now - asked_at < PATIENCE_S
