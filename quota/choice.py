"""Error texts for an invalid choice: what is allowed, and which value is nearest."""

from __future__ import annotations

from collections.abc import Collection

MOST_WORDS = 12
"""The most allowed words listed in a message, so that it stays one line."""


def choose(
    word: str, allowed: Collection[str], *, nearest: bool = True, most: int = MOST_WORDS
) -> str:
    """
    Return what may be written instead of `word`: `allowed are a, b, nearest is a`.

    At most `most` allowed words are listed. Finding the nearest takes about 50 us per word;
    `nearest=False` skips it.
    """
    if not allowed:
        return "none is defined"
    words = sorted(allowed)
    more = f" and {len(words) - most} more" if len(words) > most else ""
    text = f"allowed {'is' if len(words) == 1 else 'are'} {', '.join(words[:most])}{more}"
    near = nearest_of(word, words) if nearest else ""
    return f"{text}, nearest is {near}" if near else text


def nearest_of(word: str, allowed: Collection[str]) -> str:
    """Return the allowed word that is nearest to `word`; empty if none is near."""
    import difflib

    return next(iter(difflib.get_close_matches(word, sorted(allowed), n=1)), "")
