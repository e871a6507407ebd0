"""
Text with parameters in it: `--lr={lr}`; `{{` and `}}` stand for braces.

Only sweeps have such text: elsewhere a brace is a brace.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_MOST = 20
"""Problems that are told of one text."""
_MARK = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def filled(text: str, settings: Mapping[str, str]) -> str:
    """`text` with every `{name}` replaced; it was checked with `problems`."""
    return _MARK.sub(lambda found: found[0][0] if found[1] is None else settings[found[1]], text)


def filled_bytes(text: str, sizes: Mapping[str, int]) -> int:
    """
    How many bytes of UTF-8 `filled` makes of `text`, without making them.

    Args:
        text: Checked with `problems`.
        sizes: Bytes of what stands for each parameter.
    """
    size, end = 0, 0
    for mark in _MARK.finditer(text):
        size += byte_count(text[end : mark.start()])
        size += 1 if mark[1] is None else sizes[mark[1]]
        end = mark.end()
    return size + byte_count(text[end:])


def byte_count(text: str) -> int:
    """How many bytes `text` is in UTF-8."""
    return len(text.encode(errors="surrogateescape"))


def problems(text: str, names: Collection[str]) -> list[str]:
    """Every brace in `text` that names no parameter, with what is allowed."""
    found: dict[str, None] = {}
    for mark in _MARK.finditer(text):
        if mark[0] in "{}":
            found[f"a lone {mark[0]} in {text[:80]!r}; for a brace write {mark[0] * 2}"] = None
        elif mark[1] is not None and mark[1] not in names:
            name = mark[1][:80]
            found[
                f"{{{name}}} is no parameter of the sweep ({', '.join(names)[:400]}); for braces"
                f" write {{{{{name}}}}}"
            ] = None
        if len(found) >= _MOST:
            break
    return list(found)
