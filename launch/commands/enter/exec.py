"""`bastion exec`: run a command inside a running job."""

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
"""The problem that the agent reports."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "exec",
        execute,
        text=(
            "Runs on the job's machine, in the folder and with the environment variables and"
            " devices of one of its processes, and is stopped when they end. Exits with the exit"
            " code of the command."
        ),
        example="""\
bastion exec trainer -- nvidia-smi
bastion exec trainer/2 -- py-spy dump --pid 1""",
    )
    parser.behind = "COMMAND..."
    add_place(parser)
    number(parser, "--process", "which of the replica's processes on the host (default: 0)")
    text(
        parser,
        "--max_runtime",
        "stop the command after this time, such as 90s or 8h (default: 1h)",
        metavar="TIME",
    )


def execute(args: argparse.Namespace) -> int:
    """`bastion exec JOB[/REPLICA] -- COMMAND`."""
    if not args.command:
        raise UsageError(
            "no command given", hint=f"give it after --: bastion exec {args.job} -- nvidia-smi"
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
        note(f"detached; the command in {command.job} continues until it ends or its time limit")
        return exits.DETACHED
    end = command.end
    assert end is not None
    if end.problem:
        out.end_line()
        note(f"the command did not finish: {end.problem}")
    if end.problem == _TIMED_OUT:
        return exits.JOB_TIMED_OUT
    if end.signal is not None:
        return 128 + end.signal
    if end.code:
        return end.code
    return exits.JOB_FAILED if end.problem else exits.OK
