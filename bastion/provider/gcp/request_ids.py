"""Ids of requests, by which Google knows that it was asked for the same thing before."""

from __future__ import annotations

import uuid

_SPACE = uuid.UUID("5f1b7d3c-6a49-4c0e-9d52-8e0c5a7f4b21")
"""The space of these ids, drawn once."""
_REMEMBERED = 1000


class RequestIds:
    """
    An id for each request, by what it asks for: the same until a verdict has answered it.

    A bastion that was restarted may ask with an id that a verdict has answered. It then gets that
    verdict again, once, and makes nothing twice.
    """

    def __init__(self) -> None:
        self._verdicts: dict[str, int] = {}

    def id_of(self, key: str) -> str:
        """Return the id of a request for `key`."""
        return str(uuid.uuid5(_SPACE, f"{key} {self._verdicts.get(key, 0)}"))

    def answer(self, key: str) -> None:
        """Give the next request for `key` another id: the last one had its verdict."""
        known = dict(list(self._verdicts.items())[-_REMEMBERED:])
        self._verdicts = {**known, key: known.get(key, 0) + 1}
