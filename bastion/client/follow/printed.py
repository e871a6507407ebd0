"""A job's output as `Client.logs` returns it: chunk by chunk, or all of it as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bastion.client.follow.log_reader import Chunk

_SHOWN = 1000
"""Lines that a notebook shows, from the end."""


def in_turn(read: Callable[[], Iterator[Iterator[Chunk]]]) -> Iterator[Chunk]:
    """Yield the chunks of several logs, one log after the other."""
    return (chunk for chunks in read() for chunk in chunks)


class Printed:
    """
    The chunks of a log, in order; each is read when it is needed.

    `print(client.logs("train"))` prints it, and a notebook shows it. `for chunk in ...` prints a
    followed log as it comes.

    Args:
        job: The job that printed it.
        read: Starts to read it.
        is_followed: Whether it ends only with the job.
    """

    def __init__(
        self, job: str, read: Callable[[], Iterator[Chunk]], *, is_followed: bool = False
    ) -> None:
        self.job = job
        self._read = read
        self._is_followed = is_followed
        self._chunks: Iterator[Chunk] | None = None

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        if self._chunks is None:
            self._chunks = self._read()
        return next(self._chunks)

    @property
    def text(self) -> str:
        """
        All of it from its beginning, as text; invalid UTF-8 is replaced.

        Raises:
            NotFoundError: Bytes of the log are missing.
            StoreError: The bucket is unreachable.
        """
        return b"".join(chunk.data for chunk in self._read()).decode(errors="replace")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        if self._is_followed:
            return (
                f"<what {self.job} prints, as it comes:"
                " for chunk in ...: print(chunk.text, end='')>"
            )
        return f"<what {self.job} printed: print(...) prints it, and its text is .text>"

    def _repr_html_(self) -> str:
        from html import escape

        if self._is_followed:
            return f"<pre>{escape(repr(self))}</pre>"
        lines = self.text.splitlines()
        if not lines:
            return f"<pre>{escape(self.job)} has printed nothing</pre>"
        left = len(lines) - _SHOWN
        head = [f"({left} earlier lines are left out here)"] if left > 0 else []
        return f"<pre>{escape(chr(10).join([*head, *lines[-_SHOWN:]]))}</pre>"
