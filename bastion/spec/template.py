"""
Text with parameters in it: `--lr={lr}`; `{{` and `}}` stand for braces.

Only sweeps have such text: elsewhere a brace is a brace.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_MARK = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def filled(text: str, settings: Mapping[str, str]) -> str:
    """`text` with every `{name}` replaced; it was checked with `problems`."""
    return _MARK.sub(lambda found: found[0][0] if found[1] is None else settings[found[1]], text)


def problems(text: str, names: Collection[str]) -> list[str]:
    """Every brace in `text` that names no parameter, with what is allowed."""
    found = []
    for mark in _MARK.finditer(text):
        if mark[0] in "{}":
            found.append(f"a lone {mark[0]} in {text[:80]!r}; for a brace write {mark[0] * 2}")
        elif mark[1] is not None and mark[1] not in names:
            found.append(
                f"{mark[0]} is no parameter of the sweep ({', '.join(names)}); for braces write"
                f" {{{{{mark[1]}}}}}"
            )
    return found
