"""The parts of keys of the bucket, as `layout` reads them."""

from __future__ import annotations

from bastion.value import value


@value
class RequestName:
    """The parts of a request's key: its identity is the path, never the body."""

    project: str
    user: str
    ulid: str
    verb: str


@value
class HistoryFile:
    """The parts of the key of a file of the record: its rows come from events `[first, after)`."""

    table: str
    date: str
    """YYYY-MM-DD of its partition; empty for a file below `history/recent/`."""
    first: int
    after: int


@value
class RegisterName:
    """The parts of a register's key; `go` belongs to no pool and no replica."""

    pool: str = ""
    project: str
    job: str
    attempt: int
    nonce: str
    replica: int = 0
    host: int = 0
    kind: str
    """claim, end or go."""


@value
class LogStream:
    """The parts of a log segment's key: the process and attempt that printed it."""

    attempt: int
    replica: int
    host: int
    process: int


@value
class UsageName:
    """The parts of the key of a segment of samples."""

    attempt: int
    replica: int
    host: int
    number: int


@value
class SavedOutputName:
    """The parts of the key of a list of kept files."""

    attempt: int
    replica: int
    host: int
    number: int
