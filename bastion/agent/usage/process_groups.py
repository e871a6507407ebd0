"""
The use of CPUs, memory, disks and network by groups of processes, read from /proc.

A group is a process with its descendants. If the keeper made a cgroup of the unified hierarchy for
it, the kernel has the sums: they include processes that ended, and cost three reads. Network is
counted by namespace: a group in one of its own has its own counters, and a group that is alone on
the machine has the machine's.

Source: Linux, Documentation/admin-guide/cgroup-v2.rst; proc(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from bastion.agent.machine import stray_processes as strays
from bastion.agent.usage.port import Group
from bastion.records.reports.usage import GroupUse
from bastion.value import value

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MOST_PROCESSES = 4096
"""Most processes of one group: looking at more would take a tenth of a second."""
_UNIFIED = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
"""Where systemd mounts the unified hierarchy: alone, or beside those of version 1."""
_OURS = "bastion-"
"""The prefix of the keeper's folders; see `keeper.attempt.cgroup`."""


@value
class _Totals:
    """Counters since the start of a group, and its current use."""

    processor_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    received_bytes: int | None = None
    sent_bytes: int | None = None
    memory_bytes: int = 0
    processes: int = 0


class ProcessGroups:
    """Remembers the counters of each group from look to look, for rates."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, _Totals]] = {}
        self._network = _namespace("self")

    def look(self, groups: Mapping[str, Group], now: float) -> dict[str, GroupUse]:
        """Return the use of each group since the last look at it, or since its start."""
        found: dict[str, GroupUse] = {}
        after: dict[str, tuple[float, _Totals]] = {}
        for key, group in groups.items():
            totals = self._totals(group, is_alone=len(groups) == 1)
            before = self._before.get(key, (group.started_at, _Totals()))
            after[key] = now, totals
            found[key] = _use(totals, before[1], now - before[0], is_first=key not in self._before)
        self._before = after
        return found

    def _totals(self, group: Group, *, is_alone: bool) -> _Totals:
        pids = tuple(_with_descendants(group.pids))
        has_own = bool(group.pids) and _namespace(group.pids[0]) not in ("", self._network)
        network = None
        if has_own or is_alone:
            network = network_bytes(group.pids[0] if has_own else "self")
        folder = _cgroup(group.pids[0]) if group.pids else None
        read, written = _disk(pids)
        processor_s, memory_bytes = _of_cgroup(folder) or _of_processes(pids)
        return _Totals(
            processor_s=processor_s,
            read_bytes=read,
            written_bytes=written,
            received_bytes=network[0] if network else None,
            sent_bytes=network[1] if network else None,
            memory_bytes=memory_bytes,
            processes=len(pids),
        )


def network_bytes(of: int | str) -> tuple[int, int] | None:
    """Return the bytes received and sent in the namespace of a process, without loopback."""
    received = sent = 0
    try:
        lines = Path(f"/proc/{of}/net/dev").read_text().splitlines()[2:]
        for line in lines:
            name, _, numbers = line.partition(":")
            if name.strip() != "lo":
                counted = numbers.split()
                received += int(counted[0])
                sent += int(counted[8])
    except (OSError, ValueError, IndexError):
        return None
    return received, sent


def _use(totals: _Totals, before: _Totals, passed_s: float, *, is_first: bool) -> GroupUse:
    def rate(now: float | None, then: float | None) -> float | None:
        # A counter without an earlier value has no rate; one that fell lost members that ended.
        if now is None or then is None or passed_s <= 0:
            return None
        return max(0.0, now - then) / passed_s

    received = None if is_first else rate(totals.received_bytes, before.received_bytes)
    sent = None if is_first else rate(totals.sent_bytes, before.sent_bytes)
    return GroupUse(
        cores=round(rate(totals.processor_s, before.processor_s) or 0.0, 3),
        memory_bytes=totals.memory_bytes,
        processes=totals.processes,
        read_bytes_s=round(rate(totals.read_bytes, before.read_bytes) or 0.0),
        written_bytes_s=round(rate(totals.written_bytes, before.written_bytes) or 0.0),
        received_bytes_s=None if received is None else round(received),
        sent_bytes_s=None if sent is None else round(sent),
    )


def _with_descendants(pids: tuple[int, ...]) -> Iterator[int]:
    pending, seen = list(pids), set(pids)
    while pending and len(seen) < _MOST_PROCESSES:
        pid = pending.pop()
        yield pid
        with suppress(OSError, ValueError):
            below = [child for child in strays.children(pid) if child not in seen]
            seen.update(below)
            pending.extend(below)


def _of_processes(pids: tuple[int, ...]) -> tuple[float, int]:
    """Return the CPU seconds, including those of ended children, and the resident memory."""
    processor, pages = 0, 0
    for pid in pids:
        with suppress(OSError):
            stat = strays.read(f"/proc/{pid}/stat", 1024)
            fields = stat[stat.rfind(b")") + 2 :].split()
            if len(fields) > 21:
                processor += sum(map(int, fields[11:15]))
                pages += int(fields[21])
    return processor / _TICKS, pages * _PAGE_BYTES


def _of_cgroup(folder: Path | None) -> tuple[float, int] | None:
    """Return the same from the kernel's sums; None if it does not keep both."""
    if folder is None:
        return None
    try:
        counted = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
        held = int((folder / "memory.current").read_text())
        cached = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        # Cached file pages count as memory in use until something else needs it.
        return int(counted["usage_usec"]) / 1e6, max(0, held - int(cached["inactive_file"]))
    except (OSError, ValueError, KeyError):
        return None


def _cgroup(pid: int) -> Path | None:
    """Return the folder that the keeper made for the group of `pid`; None if there is none."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            number, _, path = line.split(":", 2)
            parts = path.split("/")
            if number != "0" or len(parts) < 3 or not parts[-2].startswith(_OURS):
                continue
            for mount in _UNIFIED:
                folder = Path(f"{mount}{path}")
                if (folder / "cpu.stat").exists():
                    return folder
    return None


def _disk(pids: tuple[int, ...]) -> tuple[int, int]:
    read = written = 0
    for pid in pids:
        with suppress(OSError, ValueError, KeyError):
            lines = strays.read(f"/proc/{pid}/io", 1024).decode().splitlines()
            counted = dict(line.split(": ") for line in lines)
            read += int(counted["read_bytes"])
            written += int(counted["write_bytes"])
    return read, written


def _namespace(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115 - no path, but a name
    except OSError:
        return ""
