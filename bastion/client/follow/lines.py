"""Lines of several processes that print at once: none is torn by one of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bastion.client.follow.log_reader import Chunk
from bastion.value import replace


def in_lines(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """
    Yield `chunks` as whole lines, each stream by itself.

    A line that its process never ended comes once a later attempt prints, or at the end, also where
    `chunks` end with an error.
    """
    rests: dict[tuple[str, int, int, int], Chunk] = {}
    try:
        yield from _lines(chunks, rests)
    except GeneratorExit:
        raise
    except BaseException:
        yield from rests.values()
        raise
    yield from rests.values()


def _lines(
    chunks: Iterable[Chunk], rests: dict[tuple[str, int, int, int], Chunk]
) -> Iterator[Chunk]:
    """Yield whole lines; what has no end yet is in `rests`."""
    for chunk in chunks:
        stream = chunk.stream
        place = (chunk.job, stream.replica, stream.host, stream.process)
        rest = rests.pop(place, None)
        if rest is not None and rest.stream == stream:
            chunk = replace(chunk, offset=rest.offset, data=rest.data + chunk.data)
        elif rest is not None:
            yield rest
        size = chunk.data.rfind(b"\n") + 1
        if size:
            yield replace(chunk, data=chunk.data[:size])
        if size < len(chunk.data):
            rests[place] = replace(chunk, offset=chunk.offset + size, data=chunk.data[size:])
