"""Current use of machines and their devices, by job."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from launch import exits
from launch.commands.look.use_text import bars, size
from launch.grammar.parser import Verbs, switch
from launch.screen.notes import note
from launch.screen.render import Column, iso
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client.look.usage import DeviceView, TopView, UsedMachine

_CLEAR = "\x1b[H\x1b[2J"
_WATCH_S = 5.0
"""Time between two refreshes; agents report every ten seconds at most."""


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    parser = verbs.add(
        "top",
        show_top,
        prints=True,
        text=(
            "Each line shows devices of one machine that belong to the same job, or to none. Each"
            " bar is one device. On a terminal the view refreshes until Ctrl-C. Machines report"
            " their use every minute, or every ten seconds if the bucket is a folder."
        ),
        example="bastion top\nbastion top --once -o wide\nbastion top --json",
    )
    switch(parser, "--once", "print once, even on a terminal")


@dataclass(frozen=True, kw_only=True)
class _Line:
    """Devices of one machine with the same job, a host without devices, or a foreign process."""

    machine: str
    devices: str = ""
    job: str = ""
    user: str = ""
    each: str = ""
    used: float | None = None
    memory: str = ""
    cores: float | None = None
    resident: int = 0
    age_s: float | None = None


def show_top(args: argparse.Namespace) -> int:
    """`bastion top`."""
    session = Session(args)
    if args.once or not session.out.terminal or session.out.format in ("json", "name"):
        _show(session)
        return exits.OK
    try:
        while True:
            view = session.client.top()
            sys.stdout.write(_CLEAR)
            _show(session, view)
            session.client.clock.sleep(_WATCH_S)
            session = session.again()
    except KeyboardInterrupt:
        return exits.OK


def _show(session: Session, view: TopView | None = None) -> None:
    out = session.out
    view = view or session.client.top()
    more = {"as_of": iso(view.as_of)}
    if out.format in ("json", "name"):
        out.show("machines", view.machines, [], name=lambda machine: machine.name, more=more)
        return
    columns: list[Column[_Line]] = [
        Column(title="MACHINE", text=lambda line: line.machine),
        Column(title="DEVICES", text=lambda line: line.devices),
        Column(title="JOB", text=lambda line: line.job),
        Column(title="USER", text=lambda line: line.user),
        Column(title="USED", text=lambda line: _percent(line.used)),
        Column(title="EACH", text=lambda line: line.each),
        Column(title="MEMORY", text=lambda line: line.memory),
        Column(title="CORES", text=lambda line: "" if line.cores is None else f"{line.cores:.1f}"),
        Column(title="RAM", text=lambda line: size(line.resident) if line.resident else ""),
        Column(title="REPORTED", text=lambda line: _age(line.age_s), wide=True),
    ]
    lines = [line for machine in view.machines for line in _lines(machine, view.as_of)]
    out.show("lines", lines, columns, name=lambda line: line.machine)
    if not session.is_quiet:
        silent = sum(machine.at is None for machine in view.machines)
        told = f"; no samples from {silent} of {len(view.machines)} machines" if silent else ""
        note(f"as of {out.time(view.as_of)}{told}")
    session.note_absence()


def _lines(machine: UsedMachine, as_of: float) -> Iterator[_Line]:
    age_s = None if machine.at is None else max(0.0, as_of - machine.at)
    uses = {(host.project, host.job): host.use for host in machine.hosts}
    shown = set()

    def holder(device: DeviceView) -> tuple[str, str]:
        return device.type, device.job

    for (kind, job), group in groupby(machine.devices, key=holder):
        devices = list(group)
        use = uses.get((devices[0].project, job)) if (kind, job) not in shown else None
        shown.add((kind, job))
        yield _Line(
            machine=machine.name,
            devices=f"{kind} {_indices(devices)}",
            job=job,
            user=devices[0].user,
            each=bars(each.used for each in devices) if machine.at is not None else "",
            used=_mean(devices),
            memory=_memory(devices),
            cores=use.cores if use is not None else None,
            resident=use.memory_bytes if use is not None else 0,
            age_s=age_s,
        )
    held = {job for _, job in shown}
    for host in machine.hosts:
        if host.job not in held:
            yield _Line(
                machine=machine.name,
                job=host.job,
                cores=host.use.cores,
                resident=host.use.memory_bytes,
                age_s=age_s,
            )
    for foreign in machine.foreign:
        indices = ",".join(map(str, foreign.devices))
        yield _Line(
            machine=machine.name,
            devices=f"device {indices}",
            job=f"foreign: {foreign.name or 'process'} {foreign.pid}",
            user=foreign.user,
            memory=size(foreign.memory_bytes) if foreign.memory_bytes else "",
            age_s=age_s,
        )
    if not machine.devices and not machine.hosts:
        is_told = machine.at is not None
        yield _Line(
            machine=machine.name,
            cores=machine.cores if is_told else None,
            resident=machine.memory_bytes,
            age_s=age_s,
        )


def _indices(devices: list[DeviceView]) -> str:
    first, last = devices[0].index, devices[-1].index
    return str(first) if first == last else f"{first}-{last}"


def _mean(devices: list[DeviceView]) -> float | None:
    used = [each.used for each in devices if each.used is not None]
    return sum(used) / len(used) if used else None


def _memory(devices: list[DeviceView]) -> str:
    total = sum(each.memory_total_bytes for each in devices)
    if not total:
        return ""
    return f"{sum(each.memory_bytes for each in devices) / 2**30:.0f}/{total / 2**30:.0f} GiB"


def _percent(used: float | None) -> str:
    return "" if used is None else f"{used:.0%}"


def _age(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f}s ago"
