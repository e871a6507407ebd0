r"""
Packs: many contents in one object, named by the sha256 of its bytes.

    pack    = b"bastion-pack 1 zlib\n" or b"bastion-pack 1 plain\n", then the body
    body    = JSON of [[sha256, offset, size], ...] and b"\n", then the pieces one after another

A piece is a part of one content. Most contents are one piece; one larger than a pack is several
pieces in several packs. The same pieces in the same order make the same pack. Reading is strict and
bounded in memory: a pack never inflates to more than `_MAX_BODY_BYTES`.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bundler.errors import DamagedError
from bundler.tree import SHA256

PACK_BYTES = 16 * 2**20
"""
Bytes of contents per pack, before compression: large enough for full throughput (object stores
reach it near 8 MiB), small enough that a machine holds a few at once.
"""
PACK_PIECES = 50_000
"""Pieces per pack."""
_MAX_TABLE_BYTES = 128 * PACK_PIECES
"""A row is a digest of 64 digits, two numbers and punctuation."""
_MAX_BODY_BYTES = PACK_BYTES + _MAX_TABLE_BYTES
_ZLIB = b"bastion-pack 1 zlib\n"
_PLAIN = b"bastion-pack 1 plain\n"
_SAMPLES = 16
_SAMPLE_BYTES = 64 * 2**10
_WORTH = 0.9
"""
Compress if samples shrink below this ratio: checkpoints and images do not, and trying costs a
second per 60 MB.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a content."""

    sha256: str
    """Digest of the whole content."""
    offset: int
    """Its offset in the content, in bytes."""
    size: int
    """Its size in bytes."""


def plan_packs(contents: Iterable[tuple[str, int]]) -> Iterator[tuple[Piece, ...]]:
    """
    Cut `contents` (sha256 and size in bytes, each once) into packs, in the given order.

    No pack holds more than `PACK_BYTES` or `PACK_PIECES`.
    """
    pieces: list[Piece] = []
    free = PACK_BYTES
    for sha256, size in contents:
        offset = 0
        while offset < size:
            take = min(size - offset, free)
            if take < size - offset and free < PACK_BYTES and size <= PACK_BYTES:
                take = 0  # It fits whole into a pack of its own time.
            if take:
                pieces.append(Piece(sha256=sha256, offset=offset, size=take))
                offset += take
                free -= take
            if not take or not free or len(pieces) == PACK_PIECES:
                yield tuple(pieces)
                pieces, free = [], PACK_BYTES
    if pieces:
        yield tuple(pieces)


def seal(pieces: Sequence[Piece], data: bytes | bytearray) -> tuple[str, bytes]:
    """Return the digest and the bytes of the pack of `pieces`, whose contents are in `data`."""
    table = json.dumps([(p.sha256, p.offset, p.size) for p in pieces], separators=(",", ":"))
    body = table.encode() + b"\n" + data
    packed = _ZLIB + zlib.compress(body, 1) if _is_worth_compressing(data) else _PLAIN + body
    return hashlib.sha256(packed).hexdigest(), packed


def open_pack(digest: str, packed: bytes) -> Iterator[tuple[Piece, memoryview]]:
    """
    Yield every piece of the pack `digest` with its bytes.

    Raises:
        DamagedError: The bytes do not match the digest, or are not a pack.
    """
    if hashlib.sha256(packed).hexdigest() != digest:
        raise DamagedError(f"the pack {digest} does not have the bytes its name promises")
    body = _body(digest, packed)
    table = bytes(body[:_MAX_TABLE_BYTES]).partition(b"\n")[0]
    contents = body[len(table) + 1 :]
    for piece in _pieces(digest, table):
        if piece.size > len(contents):
            raise DamagedError(f"the pack {digest} is shorter than its table says")
        yield piece, contents[: piece.size]
        contents = contents[piece.size :]


def _is_worth_compressing(data: bytes | bytearray) -> bool:
    step = max(len(data) // _SAMPLES, _SAMPLE_BYTES)
    sample = b"".join(data[at : at + _SAMPLE_BYTES] for at in range(0, len(data), step))
    return len(zlib.compress(sample, 1)) < _WORTH * len(sample)


def _body(digest: str, packed: bytes) -> memoryview:
    rest = memoryview(packed)
    if packed.startswith(_PLAIN):
        return rest[len(_PLAIN) :]
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(rest[len(_ZLIB) :], _MAX_BODY_BYTES)
    except zlib.error:
        body = b""
    if not packed.startswith(_ZLIB) or not inflater.eof:
        raise DamagedError(f"the pack {digest} is malformed: its body")
    return memoryview(body)


def _pieces(digest: str, table: bytes) -> Iterator[Piece]:
    try:
        rows = json.loads(table)
    except (ValueError, RecursionError):
        rows = None
    for row in rows if isinstance(rows, list) else [None]:
        match row:
            case [str(sha256), int(offset), int(size)] if (
                SHA256.match(sha256) and offset >= 0 and size >= 0
            ):
                yield Piece(sha256=sha256, offset=offset, size=size)
            case _:
                raise DamagedError(f"the pack {digest} is malformed: its table")
