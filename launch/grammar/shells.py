"""
Completion scripts, generated from the tree of verbs.

The script contains verbs, flags, actions and the words of a flag, so completing them does not start
Python. Jobs, pools, machines and projects are looked up with `bastion VERB -q`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from launch.grammar.parser import Parser
from launch.grammar.vocabulary import SEVERAL_VERBS

_BASH = """\
_bastion() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} verb=${{COMP_WORDS[1]}} words= flag=
    local before=${{COMP_WORDS[COMP_CWORD-1]}}
    # bash splits --state=run into three words.
    if [ "$word" = "=" ]; then
        flag=$before word=
    elif [ "$before" = "=" ]; then
        flag=${{COMP_WORDS[COMP_CWORD-2]}}
    elif [ "${{word#-}}" = "$word" ]; then
        flag=$before
    fi
    case "$verb $flag" in
{values}
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{verbs}"
    elif [ -n "$words" ]; then
        :
    elif [ "${{word#-}}" != "$word" ]; then
        case $verb in
{flags}
        esac
    else
        case $verb in
{words}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _bastion bastion
"""
_ACTIVE = "bastion list -q 2>/dev/null"
_ALL = "bastion list --all -q 2>/dev/null"
_OF_ENDED = ("logs", "show", "why", "events", "fetch", "rerun", "wait")
"""Verbs that also take jobs that have ended."""
_LOOKED_UP = {
    "--pool": "bastion pool -q 2>/dev/null",
    "--hostname": "bastion machines -q 2>/dev/null",
    "--project_id": "bastion status -q 2>/dev/null",
    "-p": "bastion status -q 2>/dev/null",
    "--after": _ACTIVE,
}
"""Flags whose values are in the bucket, and the command that prints the values."""


def script(shell: str, parsers: Mapping[str, Parser]) -> str:
    """Return the completion script of `shell` (bash, zsh or fish) for the verbs of `parsers`."""
    if shell == "fish":
        return _fish(parsers)
    bash = _bash(parsers)
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash}" if shell == "zsh" else bash


def _bash(parsers: Mapping[str, Parser]) -> str:
    flags = "\n".join(
        f'            {name}) words="{" ".join(_flags(parser))}" ;;'
        for name, parser in parsers.items()
    )
    words = "\n".join(
        f'            {name}) words="{_words(name, parser)}" ;;'
        for name, parser in parsers.items()
        if _words(name, parser)
    )
    values = "\n".join(
        f'        "{name} {flag}") words="{_shell_words(told)}" ;;'
        for name, parser in parsers.items()
        for flag, told in _values(parser)
    )
    verbs = " ".join(SEVERAL_VERBS)
    return _BASH.format(verbs=verbs, flags=flags, words=words, values=values)


def _values(parser: Parser) -> Iterator[tuple[str, str]]:
    """Yield each flag with values that can be completed: its words, or a command in brackets."""
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        for flag in action.option_strings:
            if flag in _LOOKED_UP:
                yield flag, f"({_LOOKED_UP[flag]})"
            elif action.choices:
                yield flag, " ".join(map(str, action.choices))


def _shell_words(told: str) -> str:
    return f"${told}" if told.startswith("(") else told


def _fish(parsers: Mapping[str, Parser]) -> str:
    lines = [
        "complete -c bastion -f",
        f"complete -c bastion -n __fish_use_subcommand -a '{' '.join(SEVERAL_VERBS)}'",
    ]
    for name, parser in parsers.items():
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        values = dict(_values(parser))
        for flag in _flags(parser):
            more = f" -x -a '{values[flag]}'" if flag in values else ""
            lines.append(f"complete -c bastion {seen} -l {flag[2:]}{more}")
        if _takes_jobs(parser):
            lines.append(f"complete -c bastion {seen} -a '({_jobs(name)})'")
        elif _words(name, parser):
            lines.append(f"complete -c bastion {seen} -a '{_words(name, parser)}'")
    return "\n".join(lines) + "\n"


def _flags(parser: Parser) -> list[str]:
    options = (
        option
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
    )
    return [option for option in options if option.startswith("--")]


def _jobs(verb: str) -> str:
    return _ALL if verb in _OF_ENDED else _ACTIVE


def _words(verb: str, parser: Parser) -> str:
    """Return the completions after the verb: actions, or the shell's own lookup of jobs."""
    if _takes_jobs(parser):
        return f"$({_jobs(verb)})"
    choices = [action.choices for action in _positionals(parser) if action.choices]
    return " ".join(word for words in choices for word in words)


def _takes_jobs(parser: Parser) -> bool:
    return any(action.dest == "job" for action in _positionals(parser))


def _positionals(parser: Parser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]
