"""`bastion`: from the words of a command line to an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from launch import exits
from launch.errors import UsageError, report
from launch.grammar.parser import (
    normal,
    refuse_empty,
    split_command,
    with_flagfiles,
)
from launch.grammar.unknown_words import refuse_command, refuse_unknown, refuse_unknown_verb
from launch.grammar.vocabulary import ALIASES, SEVERAL_VERBS
from launch.screen.notes import tell
from launch.verbs import build, first_page

COLLECT_AFTER = 100_000
"""
Objects between two searches for garbage, in place of Python's 700.

Ten thousand jobs are hundreds of thousands of objects that all live until the end: looking through
them again and again took a quarter of the time of `bastion list`.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line, this process's own by default; the exit code."""
    gc.set_threshold(COLLECT_AFTER)
    if not _has_streams():
        return exits.FAILED
    words = list(sys.argv[1:] if words is None else words)
    mine, command = split_command(words)
    debug = "--debug" in mine
    try:
        return run(mine, command)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # no traceback reaches a user
        return report(error, debug=debug)


def run(words: Sequence[str], command: list[str] | None) -> int:
    """
    Parse `words` and do what they say.

    Args:
        words: What stands before `--`.
        command: The user's command after it, or None without one.

    Raises:
        UsageError: They do not fit the grammar.
        BastionError: It could not be done.
    """
    refuse_empty(words)
    typed = with_flagfiles(words)
    words = normal(typed)
    if not words or words[0] in ("-h", "--help"):
        first_page().print_help()
        return exits.OK if words else exits.USAGE
    if words[0] == "--version":
        return _print_version()
    if words[0].startswith("-"):
        name = words[0].partition("=")[0]
        raise UsageError(f"{name} stands before the verb", hint=f"bastion VERB {name} ...")
    refuse_unknown_verb(words, SEVERAL_VERBS, command or (), typed)
    _, verbs = build(words[0])
    verb = verbs.parsers[ALIASES.get(words[0], words[0])]
    if {"-h", "--help"} & set(words[1:]):  # which intermixed parsing would show by halves
        verb.print_help()
        return exits.OK
    # Intermixed: `cancel one --json two` means two jobs, which argparse alone does not see.
    args, unknown = verb.parse_known_intermixed_args(words[1:])
    # An unknown flag with a space in its value is a word to argparse.
    first = (getattr(args, "source", None) or [""])[0]
    refuse_unknown(verb, [*unknown, *([first] if first.startswith("-") else [])])
    if not verb.behind:
        refuse_command(verb, command or ())
    args.command = command
    args.typed = ("bastion", *words, *(("--", *command) if command is not None else ()))
    done: int = args.run(args)
    return done


def _has_streams() -> bool:
    """Whether stdout is open; a closed stderr says nothing from here on."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  # for as long as the process
    if sys.stdout is None:
        tell("standard output is closed", "leave out >&-, or send it to a file or /dev/null")
        return False
    return True


def _print_version() -> int:
    from importlib.metadata import version

    print(f"bastion {version('bastion-orchestrator')}")
    return exits.OK


if __name__ == "__main__":
    sys.exit(main())
