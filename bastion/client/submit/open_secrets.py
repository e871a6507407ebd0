"""Parts of a launch that most likely contain a secret, which would be stored in the bucket."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quota.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bastion.spec.launch import Launch

_NAMES = pattern(
    r"(?:.*_)?(?:TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY)",
    re.IGNORECASE,
)
_SET = pattern(
    r"(?:^|(?<=[\s;'\"]))(-{0,2}[A-Za-z_][\w-]*)="
    r"('[^']*'|\"[^\"]*\"|['\"]?[^\s;'\"]+)"
)
"""A flag or a variable with its value, in a word of a command or in a shell line."""
_ASSIGNED = pattern(r"(-{0,2}[A-Za-z_][\w-]*)=(.*)", re.DOTALL)
"""A word that is a flag or a variable with its value, which may contain spaces and quotes."""
_NAMED = pattern(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z][A-Z0-9_]*=[^=].*")
"""What our own `--secret` takes: the name of a variable, and perhaps its source."""

_LEAST_CHARACTERS = 12
"""`EOS_TOKEN=</s>` and `SECRET=none` are not secrets; keys and tokens are longer."""


def open_secret_warnings(launch: Launch) -> tuple[str, ...]:
    """Return warnings if variables or flags of `launch` look like secrets by name and length."""
    variables = [*(job.env for job in launch.jobs)]
    variables += [process.env for job in launch.jobs for process in job.processes]
    names = sorted({name for env in variables for name, text in env.items() if _is_one(name, text)})
    commands = (process.command for job in launch.jobs for process in job.processes)
    flags = sorted({flag for words in commands for flag in _flags(words)})
    warnings = []
    if names:
        warnings.append(
            f"{', '.join(names)}: stored in the bucket in plain text, for all who can read it;"
            f" --secret={names[0]}, or Secret in Python, is read on the machine instead"
        )
    if flags:
        variable = _plain(flags[0]).upper()
        warnings.append(
            f"{', '.join(flags)} in a command: stored in the bucket in plain text, for all who can"
            f" read it; --secret={variable}, or Secret in Python, is a variable that is read on the"
            " machine instead"
        )
    return tuple(warnings)


def without_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command line in which `***` replaces what looks like a secret by name and length."""
    found = []
    for before, word in zip(["", *words], words):
        if before.startswith("--") and _is_one(_plain(before), word):
            found.append("***")
        elif before == "--env" or word.startswith("--"):
            found.append(_without_secret(word))
        else:
            found.append(_SET.sub(_hidden, word))
    return tuple(found)


def _without_secret(word: str) -> str:
    """Return a flag or variable whose value, to its last character, is hidden if it is a secret."""
    match = _ASSIGNED.fullmatch(word)
    if match is None:
        return _SET.sub(_hidden, word)
    name, text = match.groups()
    if _is_name_of_one(_plain(name), text):
        return word
    return f"{name}={'***' if _is_one(_plain(name), text) else _without_secret(text)}"


def _hidden(match: re.Match[str]) -> str:
    name, text = match.groups()
    bare = text.strip("'\"")
    if _is_name_of_one(_plain(name), bare):
        return match.group(0)
    is_one = _is_one(_plain(name), bare)
    shown = text.replace(bare, "***") if is_one else _SET.sub(_hidden, text)  # --env=TOKEN=text
    return f"{name}={shown}"


def _flags(words: Sequence[str]) -> Iterator[str]:
    """Yield flags and variables in a command that are set to what looks like a secret."""
    for word, following in zip(words, [*words[1:], ""]):
        if word.startswith("--") and _is_one(_plain(word), following):
            yield word
        for name, text in _SET.findall(word):
            if _is_one(_plain(name), text.strip("'\"")):
                yield name


def _plain(flag: str) -> str:
    """Return a flag as the name of a variable."""
    return flag.lstrip("-").replace("-", "_")


def _is_one(name: str, text: str) -> bool:
    # A path, a flag, a variable of a shell, or a parameter of a sweep
    is_elsewhere = text.startswith(("/", "./", "~", "{", "$", "-"))
    is_long = len(text) >= _LEAST_CHARACTERS and not is_elsewhere
    is_open = is_long and not _is_name_of_one(name, text)
    return is_open and _NAMES.fullmatch(name) is not None


def _is_name_of_one(name: str, text: str) -> bool:
    return name == "secret" and _NAMED.fullmatch(text) is not None
