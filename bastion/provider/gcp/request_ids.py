"""IDs of requests, by which Google recognizes a repeated request."""

from __future__ import annotations

import uuid

_SPACE = uuid.UUID("5f1b7d3c-6a49-4c0e-9d52-8e0c5a7f4b21")
"""The namespace of these IDs, generated once."""
_REMEMBERED = 1000


class RequestIds:
    """
    An ID for each request, derived from its content: unchanged until a verdict has answered it.

    A restarted bastion may use an ID that a verdict has already answered. It then gets that verdict
    once more, and creates nothing twice.
    """

    def __init__(self) -> None:
        self._verdicts: dict[str, int] = {}

    def id_of(self, key: str) -> str:
        """Return the ID of a request for `key`."""
        return str(uuid.uuid5(_SPACE, f"{key} {self._verdicts.get(key, 0)}"))

    def answer(self, key: str) -> None:
        """Give the next request for `key` another ID: the last one got its verdict."""
        known = dict(list(self._verdicts.items())[-_REMEMBERED:])
        self._verdicts = {**known, key: known.get(key, 0) + 1}
