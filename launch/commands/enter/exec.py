"""`bastion exec`: a command beside the processes of a running job."""

from __future__ import annotations

import argparse

from launch import exits
from launch.commands.enter.place import add_place, place_of
from launch.errors import UsageError
from launch.grammar.parser import Verbs, number, text
from launch.screen.notes import note
from launch.screen.printout import Printout
from launch.session import Session

_TIMED_OUT = "its time limit was over"
"""As the agent says it."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "exec",
        execute,
        text=(
            "It runs on the job's machine, in the folder and with the variables and devices of one"
            " of its processes, and is stopped when those end. Its exit code is the command's."
        ),
        example="""\
bastion exec trainer -- nvidia-smi
bastion exec trainer/2 -- py-spy dump --pid 1""",
    )
    parser.behind = "COMMAND..."
    add_place(parser)
    number(parser, "--process", "of the replica's processes there (0 by default)")
    text(parser, "--max_runtime", "when it is stopped, as 90s, 8h (1h by default)", metavar="TIME")


def execute(args: argparse.Namespace) -> int:
    """`bastion exec JOB[/REPLICA] -- COMMAND`."""
    if not args.command:
        raise UsageError(
            "no command", hint=f"it stands after --: bastion exec {args.job} -- nvidia-smi"
        )
    name, replica = place_of(args.job)
    session = Session(args)
    command = session.client.execute(
        name,
        args.command,
        replica=replica,
        host=args.host or 0,
        process=args.process or 0,
        max_runtime=args.max_runtime or "1h",
        project=args.project_id,
    )
    out = Printout(session.client.clock)
    try:
        for data in command.output():
            out.write(data)
    except KeyboardInterrupt:
        out.end_line()
        note(f"detached; the command beside {command.job} goes on, to its end or its time limit")
        return exits.DETACHED
    end = command.end
    assert end is not None
    if end.problem:
        out.end_line()
        note(f"the command did not run to its end: {end.problem}")
    if end.problem == _TIMED_OUT:
        return exits.JOB_TIMED_OUT
    if end.signal is not None:
        return 128 + end.signal
    if end.code:
        return end.code
    return exits.JOB_FAILED if end.problem else exits.OK
