"""Words for a choice that is none: what is allowed, and which of it is nearest."""

from __future__ import annotations

from collections.abc import Collection

_WORDS_SHOWN = 12
"""Allowed words listed in a message, so that it stays one line."""


def choose(word: str, allowed: Collection[str], *, nearest: bool = True) -> str:
    """
    What may be written instead of `word`: `allowed are a, b, nearest is a`.

    Finding the nearest takes some 50 us for each allowed word: without `nearest` it is left out.
    """
    if not allowed:
        return "none is defined"
    words = sorted(allowed)
    more = f" and {len(words) - _WORDS_SHOWN} more" if len(words) > _WORDS_SHOWN else ""
    text = f"allowed {'is' if len(words) == 1 else 'are'} {', '.join(words[:_WORDS_SHOWN])}{more}"
    import difflib

    near = difflib.get_close_matches(word, words, n=1) if nearest else []
    return f"{text}, nearest is {near[0]}" if near else text
