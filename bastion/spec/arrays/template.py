"""
Text with parameters: `--lr={lr}`; `{{` and `}}` are literal braces.

Only sweeps have such text: in all other text, braces are literal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quota.pattern import pattern

_MOST = 20
"""Maximum number of problems reported for one text."""
_MARK = pattern(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def filled(text: str, settings: Mapping[str, str]) -> str:
    """Return `text` with every `{name}` replaced; `problems` must have found none."""
    return _MARK.sub(lambda found: found[0][0] if found[1] is None else settings[found[1]], text)


def filled_bytes(text: str, sizes: Mapping[str, int]) -> int:
    """
    Return the size that `filled` would have in UTF-8, without building the text.

    Args:
        text: A text without `problems`.
        sizes: The size of each parameter's value, in bytes.
    """
    size, end = 0, 0
    for mark in _MARK.finditer(text):
        size += byte_count(text[end : mark.start()])
        size += 1 if mark[1] is None else sizes[mark[1]]
        end = mark.end()
    return size + byte_count(text[end:])


def byte_count(text: str) -> int:
    """Return the size of `text` in UTF-8, in bytes."""
    return len(text.encode(errors="surrogateescape"))


def problems(text: str, names: Collection[str]) -> list[str]:
    """Return a problem for every brace in `text` that names no parameter, with what is allowed."""
    found: dict[str, None] = {}
    for mark in _MARK.finditer(text):
        if mark[0] in "{}":
            found[f"a lone {mark[0]} in {text[:80]!r}; for a brace write {mark[0] * 2}"] = None
        elif mark[1] is not None and mark[1] not in names:
            name = mark[1][:80]
            found[
                f"{{{name}}} is not a parameter of the sweep ({', '.join(names)[:400]}); for braces"
                f" write {{{{{name}}}}}"
            ] = None
        if len(found) >= _MOST:
            break
    return list(found)
