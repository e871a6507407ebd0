"""
Machines whose agents answer nothing, although their provider says that they run.

An unanswered instruction shows this. A machine is given up when everything that is placed on it
waits for such an answer, so it ends nothing except what was to be stopped.

If no answer is due, an agent still rings every few minutes. An agent that does not ring while a job
runs there is mute: its machine is quarantined, then given up, although its job may still compute.
The job is started elsewhere only when the provider has confirmed that the machine is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bastion.job import Attempt, HostState, JobRecord, Phase
from bastion.machine import Machine, MachinePhase

DEAF_S = 600.0
"""
How long an instruction can go unanswered. Agents answer within seconds, and a dead agent is
restarted within a minute by its machine, or by a create if the provider supports that.
"""


MISSED_BEATS = 3.0
"""Missed heartbeats after which a machine is quarantined."""
LEAST_SILENCE_S = 600.0
"""A minimum for agents that ring often: a machine may be slow for minutes."""
MUTE_S = 3600.0
"""
Silence after which a machine with a running job is given up. Its start-up script restarts a dead
agent within a minute, so only a person could still help.
"""
MANY = 3
CUT_S = 86400.0
"""
The same if at least `MANY` machines, and half of the busy ones, are silent at the same time. An
orphan's default if a job runs. Source: docs/decisions/0076.
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
        machines: Those in root. A machine with a permit is left to its permit.
        now: The store's time.
        steady_since: The time since which turns have had no gap. An outage of the store silences
            every agent at the same time.
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


def mute_machines(
    jobs: Iterable[JobRecord],
    machines: Mapping[str, Machine],
    now: float,
    *,
    steady_since: float,
) -> tuple[frozenset[str], frozenset[str]]:
    """
    Return the machines to quarantine, and those of them to give up; arguments as above.

    Many silent machines at the same time mean a cut network, not dead agents: then each gets the
    day that an orphan with a running job has.
    """
    busy = _busy(jobs, machines)
    silent_s = {
        name: now - max(machines[name].heard_at, machines[name].created_at, steady_since)
        for name in busy
    }
    mute = {
        name
        for name, silence_s in silent_s.items()
        if silence_s > max(LEAST_SILENCE_S, MISSED_BEATS * machines[name].heartbeat_s)
    }
    is_cut = len(mute) >= MANY and 2 * len(mute) >= len(busy)
    longest_s = CUT_S if is_cut else MUTE_S
    over = {name for name in mute if silent_s[name] > longest_s}
    slices = {machines[name].slice for name in over} - {""}
    over |= {name for name, each in machines.items() if each.slice in slices}
    return frozenset(mute), frozenset(name for name in over if _may_be_given_up(machines[name]))


def _busy(jobs: Iterable[JobRecord], machines: Mapping[str, Machine]) -> set[str]:
    """Return the machines on which a host runs, and whose agents ring even without news."""
    found = set()
    for job in jobs:
        for _, _, place, state in job.attempt.each_host() if job.attempt is not None else ():
            machine = machines.get(place.machine)
            if machine is None or not machine.heartbeat_s or machine.permit_s:
                continue
            if state.claim is not None and state.end is None and machine.life:
                found.add(machine.name)
    return found


def _asked_at(job: JobRecord, machine: Machine, state: HostState) -> float | None:
    """Return the earliest time at which an answer of the host was due; None if none is due."""
    attempt = job.attempt
    assert isinstance(attempt, Attempt)
    if job.phase is Phase.STOPPING and attempt.stop is not None and state.claim is not None:
        return attempt.stop.deadline if state.stop_instructed == machine.life else None
    if job.phase is Phase.STARTING and state.claim is None and state.instructed == machine.life:
        return attempt.admitted_at if machine.life else None
    return None


def _may_be_given_up(machine: Machine) -> bool:
    return not machine.permit_s and machine.phase is not MachinePhase.DELETING
