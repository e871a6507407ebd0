"""
Completion scripts, generated from the tree of verbs.

Verbs, flags and actions are written into the script, so completing them starts no Python; only jobs
are looked up, with `bastion list -q`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from launch.grammar.parser import Parser
from launch.grammar.vocabulary import SEVERAL_VERBS

_BASH = """\
_bastion() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} verb=${{COMP_WORDS[1]}} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{verbs}"
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
_FISH_JOBS = "(bastion list -q 2>/dev/null)"


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
        f'            {name}) words="{_words(parser)}" ;;'
        for name, parser in parsers.items()
        if _words(parser)
    )
    return _BASH.format(verbs=" ".join(SEVERAL_VERBS), flags=flags, words=words)


def _fish(parsers: Mapping[str, Parser]) -> str:
    lines = [
        "complete -c bastion -f",
        f"complete -c bastion -n __fish_use_subcommand -a '{' '.join(SEVERAL_VERBS)}'",
    ]
    for name, parser in parsers.items():
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c bastion {seen} -l {flag[2:]}" for flag in _flags(parser)]
        if _takes_jobs(parser):
            lines.append(f"complete -c bastion {seen} -a '{_FISH_JOBS}'")
        elif _words(parser):
            lines.append(f"complete -c bastion {seen} -a '{_words(parser)}'")
    return "\n".join(lines) + "\n"


def _flags(parser: Parser) -> list[str]:
    options = (
        option
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
    )
    return [option for option in options if option.startswith("--")]


def _words(parser: Parser) -> str:
    """Return the completions after the verb: actions, or the shell's own lookup of jobs."""
    if _takes_jobs(parser):
        return "$(bastion list -q 2>/dev/null)"
    choices = [action.choices for action in _positionals(parser) if action.choices]
    return " ".join(word for words in choices for word in words)


def _takes_jobs(parser: Parser) -> bool:
    return any(action.dest == "job" for action in _positionals(parser))


def _positionals(parser: Parser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]
