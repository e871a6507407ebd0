"""Lines of several processes that print at the same time, without mixing parts of their lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from bastion.client.follow.log_reader import Chunk
from bastion.value import replace

_Place: TypeAlias = tuple[str, int, int, int]
"""Job, replica, host and process."""


def in_lines(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """
    Yield `chunks` as whole lines, each stream separately.

    A line that its process never ended is yielded when a later attempt prints, or at the end, even
    if `chunks` end with an error.
    """
    rests: dict[_Place, list[Chunk]] = {}
    try:
        yield from _lines(chunks, rests)
    except GeneratorExit:
        raise
    except BaseException:
        yield from map(_joined, filter(None, rests.values()))
        raise
    yield from map(_joined, filter(None, rests.values()))


def _lines(chunks: Iterable[Chunk], rests: dict[_Place, list[Chunk]]) -> Iterator[Chunk]:
    """
    Yield whole lines; keeps unfinished ones in `rests`.

    The parts of a line are joined once, since a progress bar may print one line for a whole day.
    """
    for chunk in chunks:
        stream = chunk.stream
        parts = rests.setdefault((chunk.job, stream.replica, stream.host, stream.process), [])
        if parts and parts[0].stream != stream:
            yield _joined(parts)
            parts.clear()
        size = chunk.data.rfind(b"\n") + 1
        if size:
            yield _joined([*parts, replace(chunk, data=chunk.data[:size])])
            parts.clear()
        if size < len(chunk.data):
            parts.append(replace(chunk, offset=chunk.offset + size, data=chunk.data[size:]))


def _joined(parts: Sequence[Chunk]) -> Chunk:
    return replace(parts[0], data=b"".join(part.data for part in parts))
