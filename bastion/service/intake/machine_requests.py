"""
Requests of admins about machines, applied to a draft.

Only admins can write to the inbox of admins, so requests there are permitted, even while no quota
file is in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bastion.machine import Check, Machine, MachinePhase, Pool
from bastion.records.keys import layout
from bastion.records.keys.layout import RequestName
from bastion.records.requests.machine_request import (
    MAX_REASON_CHARACTERS,
    NO_SUCH_MACHINE,
    CheckRequest,
    DrainRequest,
    MachinesRequest,
    WarmRequest,
)
from bastion.records.requests.request import ADMIN_BODIES, AdminBody
from bastion.service.draft.machines.drained import machines_of
from bastion.service.draft.machines.health import close_for_check
from bastion.service.draft.machines.warm import keep_warm
from bastion.service.draft.root_draft import Draft
from quota.choice import choose

HELLO_S = 120.0
"""An agent reads its instructions every few seconds, and a dead one is restarted in a minute."""
BURN_S = 120.0
"""This program's load takes a third of a minute, and the driver some time to start."""
BURN_COMMAND_S = 660.0
"""The load command of a pool, and one minute more."""
_TOLD = {"cordon": "cordoned", "uncordon": "uncordoned", "drain": "draining"}


def place_problem(asked: RequestName) -> str:
    """Return why a verb is requested in the wrong inbox, or an empty string."""
    if asked.project == layout.ADMIN and asked.verb not in ADMIN_BODIES:
        return f"{asked.verb}: concerns a project, and comes through the inbox of one"
    if asked.project != layout.ADMIN and asked.verb in ADMIN_BODIES:
        return f"{asked.verb}: is for admins, and comes through {layout.ADMINS}"
    return ""


def change_machines(
    draft: Draft, asked: RequestName, body: AdminBody, pools: Mapping[str, Pool]
) -> list[str]:
    """Apply an admin's request, and return every reason why that is impossible, or nothing."""
    if isinstance(body, WarmRequest):
        problem = keep_warm(draft, body, pools, by=asked.user)
        return [problem] if problem else []
    if isinstance(body, CheckRequest):
        problem = _problem(draft, body.machine) or _check(draft, asked, body, pools)
        return [problem] if problem else []
    named = tuple(dict.fromkeys(body.machines))
    problems = [why for name in named if (why := _problem(draft, name))]
    for name in named if not problems else ():
        machine, verb = draft.machines[name], asked.verb
        changed = _opened(machine)
        if verb != "uncordon":
            changed = _closed(machine, body, draft.now, asked.user)
        if changed != machine:
            draft.put_machine(changed)
            draft.tell(what=f"machine {_TOLD[verb]}", text=f"{name}: {_why(body, asked.user)}")
    return problems


def _check(draft: Draft, asked: RequestName, body: CheckRequest, pools: Mapping[str, Pool]) -> str:
    """Instruct a machine to check itself; return why it cannot, or nothing."""
    machine = draft.machines[body.machine]
    if not machine.life:
        return f"{machine.name}: has no agent yet"
    if not machine.heartbeat_s:
        # An older agent skips a whole batch that it cannot read, including the stops in it.
        return (
            f"{machine.name}: its agent runs an older Bastion, which has no checks; drain the"
            " machine to have it replaced"
        )
    if any(isinstance(each, Check) for batch in machine.outgoing for each in batch.instructions):
        return f"{machine.name}: is being sent another check; try again"
    max_s = HELLO_S
    pool = pools.get(machine.pool)
    command = pool.burn if pool is not None and body.by == "burn" else ""
    if body.by == "burn":
        busy = sorted(job.id for job in draft.working_jobs() if machine.name in machines_of(job))
        if busy:
            return f"{machine.name}: {', '.join(busy[:4])} would be disturbed; drain it first"
        max_s = BURN_COMMAND_S if command else BURN_S
        close_for_check(draft, machine.name, asked.user, for_s=max_s + HELLO_S)
    draft.instruct(
        machine.name,
        Check(id=asked.ulid, by=body.by, until=draft.now + HELLO_S, command=command, max_s=max_s),
    )
    draft.tell(what="machine check", text=f"{machine.name}: {body.by}, requested by {asked.user}")
    return ""


def _problem(draft: Draft, name: str) -> str:
    machine = draft.machines.get(name)
    if machine is None:
        return f"{name}: {NO_SUCH_MACHINE}, {choose(name, sorted(draft.machines))}"
    if machine.phase is MachinePhase.DELETING:
        return f"{name}: is being deleted"
    return ""


def _opened(machine: Machine) -> Machine:
    return replace(machine, cordoned="", draining=False, drain_by=None, drained_at=None)


def _why(body: MachinesRequest | DrainRequest, by: str) -> str:
    return f"{body.reason} ({by})" if body.reason else f"by {by}"


def _closed(machine: Machine, body: MachinesRequest | DrainRequest, now: float, by: str) -> Machine:
    reason, known = _why(body, by), machine.cordoned
    if known and not body.reason:
        reason = known  # it says more than a name
    elif machine.draining and not isinstance(body, DrainRequest):
        reason = known if reason in known else f"{known}; {reason}"[: 2 * MAX_REASON_CHARACTERS]
    if not isinstance(body, DrainRequest):
        return replace(machine, cordoned=reason)
    until = machine.drain_by if body.deadline_s is None else now + body.deadline_s
    return replace(machine, cordoned=reason, draining=True, drain_by=until)
