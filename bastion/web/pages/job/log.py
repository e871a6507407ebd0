"""The log of one process on the page of its job: a window or search results, and addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

from bastion.client.look.views import JobView
from bastion.clock import Clock
from bastion.errors import BastionError
from bastion.records.keys import layout
from bastion.store.port import ObjectStore
from bastion.value import value
from bastion.web.pages.job.page import LogAddress
from bastion.web.reading.log_window import WINDOW_BYTES, Found, ProcessLog, Window

MOST_CHARACTERS = 200
"""Of a search text."""
_OTHERS = re.compile(r"[^A-Za-z0-9._-]")
_DIGITS = 15
"""Of an offset; more digits than any log has bytes."""


@value
class LogPart:
    """One log on the page of a job."""

    address: LogAddress
    place: str
    """The address of the job's page."""
    window: Window | None = None
    found: Found | None = None
    wanted: str = ""
    begin: int = 0
    """The offset at which the search began."""
    size: int = 0
    """Bytes of the log that was searched."""
    trouble: str = ""
    is_over: bool = True

    def at(self, offset: int) -> str:
        """Return the address of the window that begins at `offset`."""
        return f"{self.place}?{urlencode({**self.address.query, 'at': str(offset)})}#log"

    @property
    def search_on(self) -> str:
        """The address that continues the same search."""
        until = self.found.until if self.found else 0
        query = {**self.address.query, "find": self.wanted, "at": str(until)}
        return f"{self.place}?{urlencode(query)}#log"

    @property
    def before(self) -> str:
        """The address of the window before; empty if there is none."""
        begin = self.window.begin if self.window else 0
        return self.at(max(0, begin - WINDOW_BYTES)) if begin else ""

    @property
    def after(self) -> str:
        """The address of the window after it; empty if there is none."""
        if self.window is None or self.window.end >= self.window.size:
            return ""
        return self.at(self.window.end)

    @property
    def first(self) -> str:
        """The address of the first window; empty if this is it."""
        return self.at(0) if self.window and self.window.begin else ""

    @property
    def last(self) -> str:
        """The address of the last window; empty if this is it."""
        return f"{self.place}?{urlencode(self.address.query)}#log" if self.after else ""

    @property
    def range_text(self) -> str:
        """Return which part of the log was searched."""
        assert self.found is not None
        if self.begin > self.size:
            return f"from byte {self.begin:,} on: the log ends at byte {self.size:,}"
        if not self.found.is_all:
            return f"in bytes {self.begin:,} to {self.found.until:,} of {self.size:,}"
        return f"from byte {self.begin:,} to the end" if self.begin else "in the whole log"

    @property
    def whole(self) -> str:
        """The address of the whole log as a file."""
        return f"{self.place}/log/whole.txt?{urlencode(self.address.query)}"

    @property
    def raw(self) -> str:
        """The address of this window as plain text."""
        at = self.window.begin if self.window else 0
        return f"{self.place}/log.txt?{urlencode({**self.address.query, 'at': str(at)})}"

    @property
    def follow(self) -> str:
        """The address of what follows the window; empty if nothing will."""
        if self.is_over or self.window is None or self.after:
            return ""
        query = {**self.address.query, "at": str(self.window.unfinished_at)}
        return f"{self.place}/log/live?{urlencode(query)}"


def offset_in(query: Mapping[str, str]) -> int | None:
    """Return the offset that an address names, or None."""
    text = query.get("at", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def process_log(store: ObjectStore, job: JobView, address: LogAddress) -> ProcessLog:
    """Return the log that `address` names."""
    prefix = layout.log(
        job.project,
        job.id,
        address.attempt,
        replica=address.replica,
        host=address.host,
        process=address.process,
    )
    return ProcessLog(store, prefix)


def file_name(job: JobView, address: LogAddress) -> str:
    """Return the name under which a whole log is saved, of characters that any system allows."""
    where = f"r{address.replica}-h{address.host}-p{address.process}"
    return f"{_OTHERS.sub('_', job.id)}-a{address.attempt}-{where}.log"


def unknown_log(job: JobView, address: LogAddress, *, processes: int | None = None) -> str:
    """Return why `job` cannot have this log; empty if it can, or if its `processes` are unknown."""
    replicas = job.replica_range[1] if job.replica_range else job.replicas
    if address.attempt > max(job.attempt, 1):
        newest = f"the newest is {job.attempt}" if job.attempt else "it has not started yet"
        return f"there is no attempt {address.attempt}; {newest}"
    if address.replica >= replicas:
        return f"there is no replica {address.replica}; the job has {replicas}, counted from 0"
    if processes is not None and address.process >= processes:
        return f"there is no process {address.process}; each host has {processes}, counted from 0"
    return ""


def log_part(
    log: ProcessLog,
    job: JobView,
    address: LogAddress,
    query: Mapping[str, str],
    *,
    place: str,
    clock: Clock,
) -> LogPart:
    """Return the part of the log that `query` requests, or that the bucket is unreachable."""
    at = offset_in(query)
    wanted = query.get("find", "")[:MOST_CHARACTERS]
    over = job.has_ended or address.attempt < job.attempt
    try:
        if wanted:
            found, begin = log.search(wanted, at or 0, clock=clock), at or 0
            size = found.until if found.is_all and not begin else log.size()
            return LogPart(
                address=address, place=place, found=found, wanted=wanted, begin=begin, size=size
            )
        return LogPart(address=address, place=place, window=log.window(at), is_over=over)
    except BastionError as error:
        return LogPart(address=address, place=place, wanted=wanted, trouble=error.message)
