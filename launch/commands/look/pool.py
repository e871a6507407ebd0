"""Pools and machines: their capacity, what is free, and the jobs on them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs, text
from launch.screen.notes import note, note_maintenance
from launch.screen.render import Column, amounts, counted, iso, span
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import MachineView
    from quota.amounts import Amounts


_UNTROUBLED = ("ready", "creating")
"""The phases of machines that accept jobs, or soon will."""

_MOST_TROUBLES = 5
"""The most machines that `bastion pool` names; `bastion machines` names all."""


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    parser = verbs.add(
        "pool",
        show_pools,
        prints=True,
        text=(
            "warm [POOL] N keeps at least N machines of a pool, in use or idle, which the pool's"
            " idle_timeout would otherwise delete; 0 ends this. For a pool of slices, N is the"
            " number of slices. POOL can be omitted if there is only one pool. For admins: warm"
            " needs write access to inbox/_admin/ in the bucket."
        ),
        example="bastion pool\nbastion pool warm gpu 4 --for=12h\nbastion pool warm gpu 0",
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="warm [POOL] N")
    text(parser, "--for", "with warm: for how long (default: 8h)", metavar="TIME")
    verbs.add(
        "machines",
        show_machines,
        prints=True,
        example="bastion machines -o wide",
    )


def show_pools(args: argparse.Namespace) -> int:
    """`bastion pool` and `bastion pool warm [POOL] N`."""
    session = Session(args)
    if args.words:
        return _warm(session)
    if args.__dict__["for"]:
        raise UsageError("--for: only pool warm takes it", hint="bastion pool warm POOL N --for=8h")
    view = session.client.pool()
    problems = _problems(session)
    by_pool: dict[str, list[MachineView]] = {}
    for machine in view.machines:
        by_pool.setdefault(machine.pool, []).append(machine)
    for pool in view.pools:
        by_pool.setdefault(str(pool.get("name", "")), [])
    columns: list[Column[str]] = [
        Column(title="POOL", text=str),
        Column(title="MACHINES", text=lambda name: str(len(by_pool[name]))),
        Column(title="HAS", text=lambda name: amounts(_sum(by_pool[name], "resources"))),
        Column(title="FREE", text=lambda name: _free(by_pool[name])),
        Column(title="JOBS", text=lambda name: str(_jobs(by_pool[name]))),
    ]
    if session.out.format == "json":
        session.out.json(
            {
                "as_of": iso(view.as_of),
                "pools": [dict(pool) for pool in view.pools],
                "shortages": [
                    {
                        "pool": lacks.pool,
                        "zone": lacks.zone,
                        "why": lacks.why,
                        "said": lacks.said,
                        "until": iso(lacks.until),
                    }
                    for lacks in view.shortages
                ],
                "problems": problems,
                "maintenance": view.maintenance,
                "warm": {
                    pool: {"machines": warm.machines, "until": iso(warm.until), "by": warm.by}
                    for pool, warm in view.warm.items()
                },
            }
        )
        return exits.OK
    session.out.show("pools", sorted(by_pool), columns, name=str)
    if not session.is_quiet:
        _note_troubles(view.machines, view.as_of)
        note_maintenance(view.maintenance)
    for name, warm in view.warm.items():
        left = span(max(0.0, warm.until - view.as_of))
        kept = f"for {left} more" if session.out.terminal else f"until {iso(warm.until)}"
        note(f"{name}: {counted(warm.machines, 'machine')} kept ready {kept}, by {warm.by}")
    for lacks in view.shortages:
        wait = span(max(0.0, lacks.until - view.as_of))
        where = f"{lacks.pool}, zone {lacks.zone}" if lacks.zone else lacks.pool
        note(f"{where}: {lacks.why}: {lacks.said}; next try in {wait}")
    for problem in problems:
        note(f"problem: {problem}")
    if not session.is_quiet:
        note(f"as of {session.out.time(view.as_of)}")
    session.note_absence()
    return exits.OK


def _note_troubles(machines: Sequence[MachineView], now: float) -> None:
    """Note which machines accept no new jobs, or have devices that are not used, and why."""
    told = [(m.name, _phase(m) + _silence(m, now)) for m in machines if not m.closed]
    troubled = [f"{name}: {phase}" for name, phase in told if phase not in _UNTROUBLED]
    for line in troubled[:_MOST_TROUBLES]:
        note(line)
    more = len(troubled) - _MOST_TROUBLES
    if more > 0:
        note(f"and {counted(more, 'more machine')}; to see all: bastion machines")


def _problems(session: Session) -> list[str]:
    """Return the problems of pools: a provider or a host that does not answer."""
    status = session.client.status()
    return [each for each in status.problems if each.startswith("pool ")]


def _warm(session: Session) -> int:
    """
    Keep machines of a pool ready, or stop doing so.

    Raises:
        UsageError: The words name no pool or no number.
        SpecError: `--for` is no duration.
    """
    from bastion.spec.values.quantity import seconds_of

    verb, *rest = session.args.words
    number = rest.pop() if rest else ""
    if verb != "warm" or len(rest) > 1 or not number.isdecimal():
        raise UsageError(
            f"pool {' '.join(session.args.words)}: must be pool warm [POOL] N, or pool alone",
            hint="bastion pool warm POOL N keeps N machines ready; bastion pool shows all pools",
        )
    duration = vars(session.args)["for"] or "8h"
    for_s = seconds_of("--for", duration)
    pool = rest[0] if rest else _only_pool(session)
    session.client.operator.warm(pool, int(number), for_s)
    if session.out.format == "json":
        session.out.json({"pool": pool, "warm": int(number)})
    elif not session.is_quiet:
        kept = counted(int(number), "machine") if int(number) else "no machine is"
        note(f"{pool}: {kept} kept ready{f' for {duration}' if int(number) else ''}")
    return exits.OK


def _only_pool(session: Session) -> str:
    names = sorted(str(pool.get("name", "")) for pool in session.client.pool().pools)
    if len(names) != 1:
        raise UsageError(
            f"pool warm: no pool named; pools are {', '.join(names) or 'none'}",
            hint="bastion pool warm POOL N",
        )
    return names[0]


def _sum(machines: list[MachineView], field: str) -> Amounts:
    from quota.amounts import Amounts

    return Amounts.sum(getattr(machine, field) for machine in machines)


def _free(machines: list[MachineView]) -> str:
    """
    Return the free part of what `machines` have; a type with nothing free is shown as 0.

    A machine that accepts no new jobs has nothing free, and unused bad devices are not free.
    """
    from bastion.spec.values.quantity import text_of_units

    kept = [machine for machine in machines if machine.phase != "deleting"]
    has, free = _sum(machines, "resources"), _sum(kept, "free")
    return text_of_units((kind, free[kind]) for kind in has.types())


def _jobs(machines: list[MachineView]) -> int:
    """Return the number of jobs on `machines`; a gang counts once."""
    return len({job for machine in machines for job in machine.jobs})


def show_machines(args: argparse.Namespace) -> int:
    """`bastion machines`."""
    session = Session(args)
    view = session.client.pool()
    zoned = any(machine.zone for machine in view.machines)
    columns: list[Column[MachineView]] = [
        Column(title="MACHINE", text=lambda machine: machine.name),
        Column(title="POOL", text=lambda machine: machine.pool),
        Column(title="PHASE", text=lambda machine: _phase(machine) + _silence(machine, view.as_of)),
        Column(title="HAS", text=lambda machine: amounts(machine.resources)),
        Column(title="FREE", text=lambda machine: _free([machine])),
        Column(title="ZONE", text=lambda machine: machine.zone, wide=not zoned),
        Column(title="HOST", text=lambda machine: machine.hostname, wide=True),
        Column(title="TIER", text=lambda machine: str(machine.tier), wide=True),
        Column(
            title="LAST SEEN", text=lambda machine: session.out.time(machine.heard_at), wide=True
        ),
        Column(title="JOBS", text=lambda machine: ", ".join(tasks_joined(machine.jobs))),
    ]
    session.out.show(
        "machines",
        view.machines,
        columns,
        name=lambda machine: machine.name,
        more={"as_of": iso(view.as_of)},
    )
    if not session.is_quiet:
        note_maintenance(view.maintenance)
        note(f"as of {session.out.time(view.as_of)}")
    session.note_absence()
    return exits.OK


def tasks_joined(jobs: Sequence[str]) -> list[str]:
    """Return ids of jobs, with the tasks of an array as one: `sweep-tynyqdb38e.28-31,35`."""
    from bastion.spec import tasks_of_id
    from bastion.spec.arrays.indices import Indices

    arrays: dict[str, list[int]] = {}
    for job in jobs:
        tasks = tasks_of_id(job)
        arrays.setdefault(job if tasks is None else tasks[0], []).extend(tasks[1] if tasks else ())
    return [f"{name}.{Indices.of(each)}" if each else name for name, each in arrays.items()]


def _silence(machine: MachineView, now: float) -> str:
    silent_s = machine.silence_s(now)
    return f", silent for {span(float(int(silent_s)))}" if silent_s else ""


def _phase(machine: MachineView) -> str:
    if machine.draining:
        word = "draining" if machine.drained_at is None else "drained"
        return f"{machine.phase}, {word}: {machine.cordoned}"
    if machine.cordoned:
        return f"{machine.phase}, cordoned: {machine.cordoned}"
    if machine.closed:
        return f"{machine.phase}, closed for maintenance"
    if machine.waits:
        return f"{machine.phase}, waits at its provider: {machine.waits}"
    if machine.stuck:
        return f"{machine.phase}: {machine.stuck}"
    if machine.unwell:
        return f"{machine.phase}, unwell: {machine.unwell}"
    return f"{machine.phase}, not using: {machine.bad}" if machine.bad else machine.phase
