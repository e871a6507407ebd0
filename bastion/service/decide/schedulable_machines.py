"""
What the scheduler is shown of machines: those that it cannot digest are shown as closed ones.

Doors refuse what no machine can have. Whatever comes past them all the same, one machine must not
keep every job of everybody from starting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bastion.machine import Machine, Pool
from bastion.records.facts import MAX_DEVICES
from bastion.scheduler.queue.shape import COUNTED
from bastion.spec.resources import MAX_UNITS
from quota import NOTHING


def indigestible(machine: Machine) -> str:
    """Why the scheduler cannot reckon with `machine`, or nothing where it can."""
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
    `machines` as the scheduler may see them, and what is wrong with those that are shown closed.

    What runs on such a machine is reckoned with as by what its pool declares; nothing new comes.
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
