"""What admins do to machines: cordon, uncordon, drain, check, and uninstall from hosts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Parser, Run, Verbs, switch, text
from launch.screen.notes import note
from launch.screen.render import Column, write_lines
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import MachineView

_WHO = "For admins: needs write access to inbox/_admin/ in the bucket."
ACTIONS = ("check", "uninstall")
BY: tuple[Literal["hello", "burn"], ...] = ("hello", "burn")


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    why = ' --reason="new driver"'
    _add(verbs, "cordon", cordon, flags=why)
    _add(verbs, "uncordon", uncordon)
    parser = _add(verbs, "drain", empty, flags=why)
    text(
        parser,
        "--deadline",
        "preempt jobs that still run after this time, such as 0s or 8h (default: let them finish)",
        metavar="TIME",
    )
    switch(parser, "--wait", "wait until no jobs run on the machines")
    parser = verbs.add(
        "machine",
        machine,
        prints=True,
        text=(
            "check hello: the agent describes its machine, without affecting jobs. check burn: puts"
            " load on CPUs and GPUs, or runs the pool's own burn command. It needs a machine"
            " without jobs, and cordons a machine that fails. uninstall: removes everything of"
            " Bastion from one of your own hosts that no pool names any longer, over your OpenSSH"
            " configuration. For admins: check needs write access to inbox/_admin/ in the bucket."
        ),
        example="""\
bastion machine check gpu-12-0 hello
bastion machine check gpu-12-0 burn
bastion machine uninstall gpu1""",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument(
        "machine", metavar="MACHINE", help="a name from bastion machines; for uninstall, a host"
    )
    parser.add_argument(
        "by", nargs="?", choices=BY, metavar="BY", help="for check: hello (default) or burn"
    )
    text(
        parser,
        "--pool",
        "for uninstall: the pool whose SSH settings reach the host",
        metavar="NAME",
    )


def _add(verbs: Verbs, name: str, run: Run, *, flags: str = "") -> Parser:
    parser = verbs.add(name, run, prints=True, text=_WHO, example=f"bastion {name} gpu-12-0{flags}")
    parser.add_argument(
        "machine", nargs="+", metavar="MACHINE", help="a name from bastion machines"
    )
    if flags:
        text(parser, "--reason", "shown for the machine and for jobs that wait for it")
    return parser


def cordon(args: argparse.Namespace) -> int:
    """`bastion cordon MACHINE...`."""
    session = Session(args)
    session.client.operator.cordon(*args.machine, reason=args.reason)
    return _changed(session, args.machine, "cordoned")


def uncordon(args: argparse.Namespace) -> int:
    """`bastion uncordon MACHINE...`."""
    session = Session(args)
    session.client.operator.uncordon(*args.machine)
    return _changed(session, args.machine, "uncordoned")


def empty(args: argparse.Namespace) -> int:
    """`bastion drain MACHINE...`."""
    session = Session(args)
    drain = session.client.operator.drain(
        *args.machine, reason=args.reason, deadline=args.deadline or None
    )
    if not args.wait:
        code = _changed(session, args.machine, "draining")
        note(f"to wait until they are drained: bastion drain {' '.join(args.machine)} --wait")
        return code
    try:
        became = dict(drain.over(_Progress()))
    except KeyboardInterrupt:
        note("the drain continues; to end it: bastion uncordon")
        return exits.DETACHED
    _changed(session, args.machine, became)
    taken_back = [name for name in args.machine if became[name] == "uncordoned"]
    if taken_back:
        note(f"not drained: {', '.join(taken_back)} was uncordoned in the meantime")
    return exits.FAILED if taken_back else exits.OK


def machine(args: argparse.Namespace) -> int:
    """`bastion machine ACTION MACHINE`."""
    if args.action == "check":
        if args.pool:
            raise UsageError("machine check: --pool is only for uninstall; omit it")
        return _check(args)
    if args.by:
        raise UsageError(f"machine uninstall: {args.by!r} is only for check; omit it")
    return _uninstall(args)


def _uninstall(args: argparse.Namespace) -> int:
    """`bastion machine uninstall HOST`."""
    from bastion.admin import Admin

    session = Session(args)
    kept = Admin(session.profile.root).uninstall(args.machine, pool=args.pool)
    if session.out.format == "json":
        session.out.json({"host": args.machine, "kept": kept})
    else:
        note(f"{args.machine}: {kept or 'nothing of Bastion is left there'}")
    return exits.FAILED if kept else exits.OK


def _check(args: argparse.Namespace) -> int:
    """`bastion machine check MACHINE [hello|burn]`."""
    session = Session(args)
    by = args.by or BY[0]

    def on_begun() -> None:
        if not session.is_quiet:
            note(f"waiting for the agent of {args.machine}")

    found = session.client.operator.check(args.machine, by, on_begun=on_begun)
    if session.out.format == "json":
        more = {"problem": found.problem, "undone": found.undone}
        session.out.json({"machine": args.machine, "lines": list(found.lines), **more})
    else:
        write_lines(found.lines)
    if found.undone:
        note(f"{args.machine} was not checked: {found.undone}")
    elif found.problem:
        cordoned = "; it is cordoned" if by == "burn" else ""
        note(f"{args.machine}: {found.problem}{cordoned}")
    return exits.FAILED if found.undone or found.problem else exits.OK


class _Progress:
    """Notes the jobs that a drain waits for, whenever they change."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, ...]] = {}

    def __call__(self, left: Sequence[MachineView]) -> None:
        for machine in left:
            if machine.jobs and self._told.get(machine.name) != machine.jobs:
                note(f"{machine.name}: still runs {', '.join(machine.jobs)}")
            self._told[machine.name] = machine.jobs


def _changed(session: Session, machines: Sequence[str], what: str | dict[str, str]) -> int:
    done = {name: what if isinstance(what, str) else what[name] for name in machines}
    columns: list[Column[str]] = [
        Column(title="MACHINE", text=str),
        Column(title="DONE", text=done.__getitem__),
    ]
    if session.out.format == "json":
        session.out.json({"machines": done})
    else:
        session.out.show("machines", list(done), columns, name=str)
    return exits.OK
