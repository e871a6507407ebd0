"""Checks of the user's command before it is sent: shell quotes, files that are not sent."""

from __future__ import annotations

import argparse
import os
import re
import stat
import sys

from launch.errors import UsageError
from launch.screen.notes import note
from launch.submission.code import folder_of
from quota.pattern import pattern

_ASSIGNMENT = pattern(r"[A-Za-z_]\w*=", re.ASCII)
_WORDS_OF_SHELLS = frozenset({".", "cd", "eval", "exec", "export", "set", "source", "ulimit"})

MAX_STDIN_BYTES = 64 << 10
"""The input becomes part of the spec, which must be small."""
_FROM_A_FILE = """\
file=$(mktemp) && printf %s "$1" >"$file" && exec <"$file" && rm "$file" && shift && exec "$@"
"""


def checked_command(args: argparse.Namespace) -> list[str]:
    """
    Return the command to send, with notes on likely mistakes.

    `-c "'import jax'"`: other launchers pass the command through a shell, which removes the inner
    quotes. Without a shell they would make the program a string literal, which does nothing.

    Raises:
        UsageError: A shell line is given where a program is expected.
    """
    command = list(args.command)
    if len(command) == 1 and command[0].split()[1:] and not args.shell:
        raise UsageError(
            f"there is no program named {command[0]!r}",
            hint="omit the quotes, or add --shell to run a shell line",
        )
    if not args.shell and (meant := _of_the_shell(command[0])):
        raise UsageError(f"there is no program named {command[0]!r}", hint=meant)
    for at, word in enumerate(command):
        if not is_quoted(word):
            continue
        if at and command[at - 1] == "-c":
            command[at] = word[1:-1]
            note(f"warning: {word} is sent without its inner quotes, because no shell removes them")
        else:
            note(f"warning: {word} keeps its inner quotes, because no shell removes them")
    for name in unused_parameters(args, command):
        note(
            f"note: the command does not contain {{{name}}}; tasks differ only in the variable"
            f" BASTION_PARAM_{name.upper()}"
        )
    for text in args.secret:
        name, _, source = text.partition("=")
        if not source:
            note(f"note: secret {name} is read on the machine; the job fails if it is not there")
    if left := left_behind(command, sends_code=_sends_code(args)):
        note(f"note: {left} is a local file, but no code is sent; to send it: --code=.")
    folder = "" if args.bundler_type or args.bundler_spec else folder_of(args)
    if folder and (script := missing_script(command, folder)):
        meant = f"; did you mean {near}?" if (near := nearest_file(script, folder)) else ""
        note(f"note: {script} is not in the code to send, {os.path.abspath(folder)}{meant}")
    return command


def _of_the_shell(word: str) -> str:
    """Return a hint if the first word of a command is part of shell syntax; empty if not."""
    line = f"to run a shell line: --shell -- '{word} ... && ...'"
    if _ASSIGNMENT.match(word):
        return f"to set a variable: --env={word}"
    return line if word in _WORDS_OF_SHELLS else ""


def with_stdin(command: list[str], *, sends: bool) -> list[str]:
    """
    Return `command`, with the input piped into this process if `sends` is set.

    The command gets the same bytes. It replaces the shell that passes them, so it gets all signals
    and sets the code.

    Raises:
        UsageError: The input is too large, or is not text.
    """
    if not sends:
        if _is_piped():
            note("note: piped input is not sent; to send it: bastion run --stdin")
        return command
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(data) > MAX_STDIN_BYTES:
        raise UsageError(
            f"--stdin: the piped input has more than {MAX_STDIN_BYTES} bytes",
            hint="put it into a file in the code, and send that with --code=.",
        )
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(
            "--stdin: the piped input is not text", hint="send it as a file with --code=."
        )
    return ["/bin/sh", "-c", _FROM_A_FILE, "sh", text, *command]


def _is_piped() -> bool:
    """Whether input was piped into this process."""
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return False
    return is_pipe and _bytes_waiting()


def _bytes_waiting() -> bool:
    """Whether there are bytes in the pipe, rather than end of file."""
    import fcntl
    import select
    import termios

    if not select.select([0], [], [], 0)[0]:
        return False
    count = bytearray(4)
    try:
        fcntl.ioctl(0, termios.FIONREAD, count)
    except OSError:
        return False
    return any(count)


def is_quoted(word: str) -> bool:
    """Whether `word` is enclosed in quotes."""
    return len(word) > 2 and word[0] == word[-1] and word[0] in "'\""


def left_behind(command: list[str], *, sends_code: bool) -> str:
    """Return the first word that is a local file and would not be sent, or empty."""
    if sends_code:
        return ""
    return next((word for word in command if _is_file_here(word)), "")


def missing_script(command: list[str], folder: str) -> str:
    """Return the script that `command` runs if it is not in `folder`, where it starts; or empty."""
    script = next((word for word in command[:2] if word.endswith((".py", ".sh"))), "")
    if not script or script.startswith(("/", "-", "~")) or "{" in script:
        return ""
    if not os.path.isdir(folder):
        return ""
    return "" if os.path.exists(os.path.join(folder, script)) else script


def nearest_file(script: str, folder: str) -> str:
    """Return the script in `folder` with the most similar name; empty if there is none."""
    import difflib

    ending = os.path.splitext(script)[1]
    names = [name for name in os.listdir(folder) if name.endswith(ending)]
    return next(iter(difflib.get_close_matches(script, names, n=1)), "")


def unused_parameters(args: argparse.Namespace, command: list[str]) -> list[str]:
    """Return the parameters of a sweep that neither the command nor a variable names."""
    texts = [*command, *args.env]
    names = [name for name, _, values in (text.partition("=") for text in args.sweep) if values]
    return [name for name in names if not any(f"{{{name}}}" in text for text in texts)]


def _is_file_here(word: str) -> bool:
    return not word.startswith(("/", "-", "~")) and os.path.isfile(word)


def _sends_code(args: argparse.Namespace) -> bool:
    return bool(args.bundler_type or args.bundler_spec or folder_of(args))
