"""The history of a machine from its allocation to its end: each step with its time."""

from __future__ import annotations

from collections.abc import Iterator

from bastion.machine import Machine, MachinePhase
from bastion.spec.values.quantity import text_of_seconds


def machine_news(before: Machine | None, after: Machine, now: float) -> Iterator[tuple[str, str]]:
    """
    Yield (what, text) of every step between two records of a machine; None: it is new.

    That it is ready, gone or not created is recorded where it becomes known.
    """
    if before is None:
        where = f" in zone {after.zone}" if after.zone else ""
        batch = f", in one call with batch {after.batch}" if after.batch else ""
        yield "machine asked for", f"{after.name} of pool {after.pool}{where}{batch}"
        return
    if before.made_at is None and after.made_at is not None and not before.life:
        took = text_of_seconds(round(after.made_at - before.created_at, 1))
        yield "machine made", f"{after.name}, {took} after it was asked for"
    if after.waits and after.waits != before.waits:
        yield "machine waits", f"{after.name}: {after.waits}"
    if after.stuck and after.stuck != before.stuck:
        yield "machine stuck", f"{after.name}: {after.stuck}"
    if after.phase is MachinePhase.SILENT and before.phase is not MachinePhase.SILENT:
        heard = text_of_seconds(float(int(now - after.heard_at)))
        yield "machine silent", f"{after.name}: its agent was last heard from {heard} ago"
    if after.phase is MachinePhase.DELETING and before.phase is not MachinePhase.DELETING:
        yield "machine deleted", f"{after.name} of pool {after.pool}{_why(before, now)}"


def end_news(machine: Machine, unmade: str) -> tuple[str, str]:
    """
    Return the event and text for a machine that leaves root.

    `unmade` says why it was never created, if so. The end of a machine that worked, was idle and
    was deleted is a separate event, because it deserves no warning.
    """
    if unmade:
        return "machine not made", f"{machine.name}: {unmade}"
    is_idle = machine.life > 0 and machine.idle_since is not None
    is_meant = is_idle and machine.phase is MachinePhase.DELETING
    what = "machine ended" if is_meant else "machine gone"
    return what, f"{machine.name} of pool {machine.pool}"


def _why(machine: Machine, now: float) -> str:
    if machine.phase is MachinePhase.CREATING and not machine.life:
        age = text_of_seconds(float(int(now - machine.created_at)))
        return f": its agent has not reported {age} after it was asked for"
    if machine.idle_since is not None:
        return f": idle for {text_of_seconds(float(int(now - machine.idle_since)))}"
    return ""
