"""
Machines whose agents answer nothing, though their provider says that they run.

Silence alone says nothing: an agent rings when something happens. An instruction that stays
unanswered does. A machine is given up when all that is placed on it waits for such an answer, so
nothing that runs there is ended but what was to be stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bastion.job import Attempt, HostState, JobRecord, Phase
from bastion.machine import Machine, MachinePhase

DEAF_S = 600.0
"""
How long an instruction may go unanswered. Agents answer within seconds, and one that has died is
started again within a minute by its machine, or by a create where the provider can do that.
"""


def deaf_machines(
    jobs: Iterable[JobRecord],
    machines: Mapping[str, Machine],
    now: float,
    *,
    steady_since: float,
) -> frozenset[str]:
    """
    Return the machines to give up.

    Args:
        jobs: The admitted ones.
        machines: Those of root. One with a permit is left to that.
        now: The store's time.
        steady_since: Since when turns have followed each other without a gap. An outage of the
            store silences every agent at once.
    """
    deaf: set[str] = set()
    alive: set[str] = set()
    for job in jobs:
        for _, _, place, state in job.attempt.each_host() if job.attempt is not None else ():
            machine = machines.get(place.machine)
            if machine is None or state.end is not None:
                continue
            asked_at = _asked_at(job, machine, state)
            heard_at = max(machine.heard_at, steady_since)
            if asked_at is not None and now - max(asked_at, heard_at) > DEAF_S:
                deaf.add(machine.name)
            elif state.claim is not None or asked_at is not None:
                alive.add(machine.name)
    found = {name for name in deaf - alive if _may_be_given_up(machines[name])}
    slices = {machines[name].slice for name in found} - {""}
    found |= {name for name, each in machines.items() if each.slice in slices and name not in alive}
    return frozenset(found)


def _asked_at(job: JobRecord, machine: Machine, state: HostState) -> float | None:
    """When an answer of the host was due at the earliest; None if none is due."""
    attempt = job.attempt
    assert isinstance(attempt, Attempt)
    if job.phase is Phase.STOPPING and attempt.stop is not None and state.claim is not None:
        return attempt.stop.deadline if state.stop_instructed == machine.life else None
    if job.phase is Phase.STARTING and state.claim is None and state.instructed == machine.life:
        return attempt.admitted_at if machine.life else None
    return None


def _may_be_given_up(machine: Machine) -> bool:
    return not machine.permit_s and machine.phase is not MachinePhase.DELETING
