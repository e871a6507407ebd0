"""A call in each zone or region of a pool; a failure in one does not affect the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bastion.errors import ProviderError


def in_each(places: Iterable[str], work: Callable[[str], None]) -> None:
    """
    Do `work` in each of `places`, even after it failed in one.

    Raises:
        ProviderError: The first failure, after all places were tried.
    """
    failures: list[ProviderError] = []
    for place in places:
        try:
            work(place)
        except ProviderError as error:
            failures.append(error)
    if failures:
        raise failures[0]
