r"""
Expressions for users that some names would keep busy.

Python's expressions go back and try again: `(\w+\.?)*@corp` takes twice as long for each letter of
a name without an `@`. A job submitted under such a name would stop a bastion that matches it.

Source: OWASP, Regular expression Denial of Service.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from quota.file.checks import as_text
from quota.file.errors import Problem, QuotaError
from quota.lines import Path, line_of, shown
from quota.tree import People, Quota

MOST_CPU_S = 0.02
"""One match of a sound expression takes a thousandth of this."""
LENGTHS = range(8, 65, 2)
"""Each is tried only if the one before was quick, so a check takes a few times `MOST_CPU_S`."""
_LETTERS = "a0._-"
_ENDS = ("", "!", "@")
"""What a name may end in, so that it does not match after all."""


def refuse_slow_patterns(quota: Quota) -> None:
    """
    Check that no expression in a file takes long for any name that is likely to be bad for it.

    Raises:
        QuotaError: Some do.
    """
    problems = [
        Problem(
            line=line_of(quota.lines, path),
            path=shown(path),
            text=f"{as_text(text)} takes minutes for some names that do not match, write it without"
            " a repetition inside a repetition",
        )
        for path, text in _expressions(quota)
        if is_slow(text)
    ]
    if problems:
        raise QuotaError(*sorted(problems, key=lambda problem: problem.line))


def is_slow(text: str) -> bool:
    """Whether a name of at most 64 characters was found that takes too long."""
    compiled = re.compile(text)
    letters = dict.fromkeys(_LETTERS + "".join(filter(str.isalnum, text)))
    return any(_is_slow_for(compiled, letter, end) for letter in letters for end in _ENDS)


def _is_slow_for(compiled: re.Pattern[str], letter: str, end: str) -> bool:
    for length in LENGTHS:
        before = time.thread_time()
        compiled.fullmatch(letter * length + end)
        if time.thread_time() - before > MOST_CPU_S:
            return True
    return False


def _expressions(quota: Quota) -> Iterator[tuple[Path, str]]:
    """Yield every expression for users, with its place in the file."""
    for name, project in quota.projects.items():
        for path, people in (
            (("project_membership", name), project.members),
            (("project_options", name, "admins"), project.admins),
        ):
            for at, text in enumerate(people.written):
                if People(written=(text,)).has_patterns:
                    yield (*path, at), text
        for people, _ in project.user_limits:
            if people.has_patterns:
                yield ("project_options", name, "users", *people.written), people.written[0]
