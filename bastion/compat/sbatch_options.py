"""
The `#SBATCH` lines of a script, as options with their line numbers.

Lines are read as sbatch reads them, ended by line feeds alone: those that start with `#SBATCH`, up
to the first command.
`##SBATCH` is a comment, ` #` starts one, and a later option overrides an earlier one. This module
must not know what an option means.

Source: sbatch(1), and getopt_long(3) for the forms of a word.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping
from typing import Literal

from bastion.errors import SpecError
from bastion.value import value

Takes = Literal["text", "nothing", "maybe"]
"""Whether an option has a value; `maybe`: an optional one, after an equals sign."""

TAKES: Mapping[str, Takes] = {
    **dict.fromkeys(
        (
            "account", "array", "begin", "chdir", "clusters", "comment", "constraint",
            "cpus-per-gpu", "cpus-per-task", "deadline", "dependency", "error", "exclude",
            "export", "gpus", "gpus-per-node", "gpus-per-task", "gres", "input", "job-name",
            "licenses", "mail-type", "mail-user", "mem", "mem-per-cpu", "mem-per-gpu",
            "nodelist", "nodes", "ntasks", "ntasks-per-node", "open-mode", "output",
            "partition", "priority", "qos", "reservation", "signal", "switches",
            "tasks-per-node", "time", "time-min", "tmp", "workdir",
        ),
        "text",
    ),
    **dict.fromkeys(
        ("contiguous", "hold", "no-requeue", "oversubscribe", "overcommit", "parsable", "requeue",
         "verbose", "quiet", "wait"),
        "nothing",
    ),
    **dict.fromkeys(("exclusive", "get-user-env", "nice"), "maybe"),
}  # fmt: skip
"""Options by long name. An option in none of these sets is unknown."""

SHORT: Mapping[str, str] = {
    "A": "account", "a": "array", "b": "begin", "D": "chdir", "M": "clusters", "C": "constraint",
    "c": "cpus-per-task", "d": "dependency", "e": "error", "x": "exclude", "G": "gpus",
    "i": "input", "J": "job-name", "L": "licenses", "w": "nodelist", "N": "nodes", "n": "ntasks",
    "o": "output", "p": "partition", "q": "qos", "t": "time", "H": "hold", "s": "oversubscribe",
    "O": "overcommit", "v": "verbose", "Q": "quiet", "W": "wait",
}  # fmt: skip


@value
class Option:
    """One option as it is in the script."""

    line: int
    """Its line in the script, counted from 1."""
    name: str
    """Its long name."""
    text: str = ""
    """Its value."""

    def __str__(self) -> str:
        """Return the option as it is in the file."""
        return f"line {self.line}: --{self.name}" + (f"={self.text}" if self.text else "")


@value
class Header:
    """The options in a script before its first command."""

    options: Mapping[str, Option]
    """By long name; the last one of a repeated option."""
    notes: tuple[str, ...] = ()
    """Lines that sbatch would ignore silently."""


def read_header(script: str) -> Header:
    """
    Return the options of `script`.

    Raises:
        SpecError: A line cannot be parsed, or its option is unknown; the error lists every problem.
    """
    options: dict[str, Option] = {}
    problems: list[str] = []
    notes: list[str] = []
    begun = False
    for number, line in enumerate(script.split("\n"), start=1):
        begun = begun or (bool(line.strip()) and not line.lstrip().startswith("#"))
        if not line.startswith(("#SBATCH", "#PBS ")):
            continue
        if begun:
            notes.append(f"line {number}: below the first command, where sbatch reads nothing")
            continue
        try:
            for option in _options(number, line):
                options[option.name] = option
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(*problems)
    return Header(options=options, notes=tuple(notes))


def _options(number: int, line: str) -> Iterator[Option]:
    if line.startswith("#PBS"):
        raise SpecError(f"line {number}: #PBS is another system's; write it as #SBATCH")
    try:
        words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
    except ValueError as error:
        raise SpecError(f"line {number}: {error}".lower()) from None
    while words:
        word = words.pop(0)
        name, text = _split(number, word)
        takes = TAKES[name]
        if takes == "text" and text is None:
            if not words:
                raise SpecError(f"line {number}: --{name}: has no value")
            text = words.pop(0)
        if takes == "nothing" and text:
            raise SpecError(f"line {number}: --{name}={text}: takes no value")
        yield Option(line=number, name=name, text=text or "")


def _split(number: int, word: str) -> tuple[str, str | None]:
    """Return the long name of the option in `word`, and the value attached to it."""
    if word.startswith("--"):
        name, equals, text = word[2:].partition("=")
        if name in TAKES:
            return name, text if equals else None
        near = difflib.get_close_matches(name, TAKES, n=1)
        told = f"; did you mean --{near[0]}?" if near else ""
        raise SpecError(f"line {number}: --{name}: has no counterpart here{told or _WAY_OUT}")
    if word.startswith("-") and word[1:2] in SHORT:
        return SHORT[word[1]], word[2:] or None
    what = "has no counterpart here" if word.startswith("-") else "is not an option"
    raise SpecError(f"line {number}: {word}: {what}{_WAY_OUT}")


_WAY_OUT = "; take it out if the job can do without"
