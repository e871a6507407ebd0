"""`bastion`: from the words of a command line to an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from launch import exits
from launch.errors import UsageError, report
from launch.grammar.parser import (
    Parser,
    normal,
    refuse_bytes,
    refuse_empty,
    split_command,
    with_flagfiles,
)
from launch.grammar.vocabulary import ALIASES, SEVERAL_VERBS
from launch.screen.notes import tell
from launch.verbs import build, first_page

_FAILING = ("strict", "surrogateescape")
"""What raises for a character that an encoding lacks; the second is that of the C locale."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line, this process's own by default; return the exit code."""
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
    Parse `words` and run the verb.

    Args:
        words: The words before `--`.
        command: The user's command after it, or None without one.

    Raises:
        UsageError: The words do not fit the grammar.
        BastionError: The verb failed.
    """
    refuse_bytes(words)
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
        raise UsageError(f"{name} must follow the verb", hint=f"bastion VERB {name} ...")
    _refuse_unknown_verb(words, command or (), typed)
    _, verbs = build(words[0])
    verb = verbs.parsers[ALIASES.get(words[0], words[0])]
    if {"-h", "--help"} & set(words[1:]):  # intermixed parsing would print only half of it
        verb.print_help()
        return exits.OK
    # Intermixed, because plain argparse does not read `cancel one --json two` as two jobs.
    args, unknown = verb.parse_known_intermixed_args(words[1:])
    # Argparse takes an unknown flag with a space in its value for a word.
    first = (getattr(args, "source", None) or [""])[0]
    _refuse_unknown(verb, [*unknown, *([first] if first.startswith("-") else [])])
    if command and not verb.behind:
        _refuse_command(verb, command)
    args.command = command
    args.typed = ("bastion", *words, *(("--", *command) if command is not None else ()))
    done: int = args.run(args)
    return done


# The tables of foreign words are long, and only an invalid command line needs them.


def _refuse_unknown_verb(
    words: Sequence[str], command: Sequence[str], typed: Sequence[str]
) -> None:
    if words[0] not in SEVERAL_VERBS:
        from launch.grammar.unknown_words import refuse_unknown_verb

        refuse_unknown_verb(words, SEVERAL_VERBS, command, typed)


def _refuse_unknown(verb: Parser, words: Sequence[str]) -> None:
    if words:
        from launch.grammar.unknown_words import refuse_unknown

        refuse_unknown(verb, words)


def _refuse_command(verb: Parser, command: Sequence[str]) -> None:
    from launch.grammar.unknown_words import refuse_command

    refuse_command(verb, command)


def _has_streams() -> bool:
    """Whether stdout is open. A closed stderr is replaced by /dev/null."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  # open until the process ends
    if sys.stdout is None:
        tell("standard output is closed", "omit >&-, or redirect it to a file or /dev/null")
        return False
    if sys.stdout.errors in _FAILING and isinstance(sys.stdout, TextIOWrapper):
        # Characters that the terminal's encoding lacks are escaped, such as a name in Cyrillic.
        sys.stdout.reconfigure(errors="backslashreplace")
    return True


def _print_version() -> int:
    from bastion.provider.build import build_digest
    from bastion.version import VERSION, version_line

    print(f"bastion {version_line(VERSION, build_digest())}")
    return exits.OK


if __name__ == "__main__":
    sys.exit(main())
