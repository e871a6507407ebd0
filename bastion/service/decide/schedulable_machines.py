"""
The machines as the scheduler sees them: machines with impossible values, or gone, are closed.

Impossible values are refused when a machine reports them. If any get past that, one machine must
not stop all scheduling. A gone machine stays in root until a second listing confirms it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from bastion.machine import Machine, Pool
from bastion.records.reports.facts import MAX_DEVICES
from bastion.scheduler.queue.shape import COUNTED
from bastion.spec.resources import MAX_UNITS
from quota import NOTHING

_GONE = "its provider says that it is gone"


def indigestible(machine: Machine) -> str:
    """Return why the scheduler cannot use `machine`, or an empty string."""
    for kind, units in machine.resources.items():
        most = MAX_UNITS if kind in COUNTED else MAX_DEVICES
        if not 0 <= units <= most:
            return f"has a number of {kind} that is out of bounds; 0 to {most} are allowed"
    for kind, indices in machine.bad_devices.items():
        if any(not 0 <= index < MAX_DEVICES for index in indices):
            return (
                f"names a bad device of {kind} that is out of bounds; 0 to {MAX_DEVICES - 1} exist"
            )
    return ""


def digestible(
    machines: Mapping[str, Machine], pools: Mapping[str, Pool]
) -> tuple[Mapping[str, Machine], dict[str, str]]:
    """
    Return `machines` as the scheduler can see them, and what is wrong with those shown as closed.

    A closed machine keeps its running jobs, with the resources that its pool declares, and gets no
    new ones.
    """
    wrong = {name: why for name, each in machines.items() if (why := indigestible(each))}
    if not wrong:
        return machines, wrong
    shown = dict(machines)
    for name, why in wrong.items():
        pool = pools.get(machines[name].pool)
        resources = pool.resources if pool is not None else NOTHING
        shown[name] = replace(machines[name], resources=resources, bad_devices={}, cordoned=why)
    return shown, wrong


def without_gone(machines: Mapping[str, Machine], gone: Collection[str]) -> Mapping[str, Machine]:
    """Return `machines` with those in `gone` closed: no attempt starts there."""
    closed = [name for name in gone if name in machines and not machines[name].cordoned]
    if not closed:
        return machines
    shown = dict(machines)
    shown.update((name, replace(machines[name], cordoned=_GONE)) for name in closed)
    return shown
