"""The spool: bounded, contiguous, never in the way."""

from __future__ import annotations

import resource
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.agent.keeper.attempt.spool import TAIL_BYTES, Spool, marker


@contextmanager
def disk_of(size_bytes: int) -> Iterator[None]:
    """No file of this process can grow beyond `size_bytes`: writes fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_everything_fits(tmp_path: Path) -> None:
    """Below the limit, the file is what was written, and nothing was dropped."""
    spool = Spool(str(tmp_path / "p0.log"), limit_bytes=1 << 20)
    spool.put(b"one", 0.0)
    spool.put(b"two", 0.0)
    assert spool.tail(4) == b"etwo"
    spool.close(0.0)
    assert (tmp_path / "p0.log").read_bytes() == b"onetwo"
    assert (spool.size, spool.dropped) == (6, 0)


@settings(max_examples=40)
@given(pieces=st.lists(st.integers(0, 120_000), max_size=12), limit_bytes=st.integers(0, 400_000))
def test_every_byte_is_counted(pieces: list[int], limit_bytes: int) -> None:
    """Any output under any limit: head, exact count of the dropped bytes, and tail."""
    written = b""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p0.log"
        spool = Spool(str(path), limit_bytes=limit_bytes)
        for number, size in enumerate(pieces):
            piece = bytes((number + 65,)) * size
            written += piece
            seen = spool.size
            spool.put(piece, 0.0)
            assert spool.size >= seen
        spool.close(0.0)
        log = path.read_bytes()
    assert len(log) == spool.size <= max(limit_bytes, TAIL_BYTES + 80)
    if not spool.dropped:
        assert log == written
        return
    head, found, tail = log.partition(marker(spool.dropped))
    assert found
    assert written.startswith(head)
    assert written.endswith(tail)
    assert len(tail) == TAIL_BYTES
    assert len(head) + spool.dropped + len(tail) == len(written)


def test_a_full_disk_is_a_visible_gap(tmp_path: Path) -> None:
    """While the disk is full, bytes are held, then counted; with room again the log continues."""
    spool = Spool(str(tmp_path / "p0.log"), limit_bytes=1 << 20)
    spool.put(b"a" * 1000, 0.0)
    with disk_of(1500):
        spool.put(b"b" * 1000, 1.0)
        spool.put(b"c" * (TAIL_BYTES + 7), 1.5)
    spool.put(b"d", 1.9)
    assert spool.size == 1500, "not tried again at once"
    spool.put(b"e", 3.0)
    spool.close(3.0)
    log = (tmp_path / "p0.log").read_bytes()
    held = b"c" * (TAIL_BYTES - 1) + b"d"
    assert log == b"a" * 1000 + b"b" * 500 + marker(508) + held + b"e"
    assert (spool.dropped, spool.untold) == (508, 0)
    assert spool.size == len(log)


def test_a_disk_full_to_the_end_loses_no_count(tmp_path: Path) -> None:
    """Bytes that could not be written at the end are counted as dropped, without an error."""
    spool = Spool(str(tmp_path / "p0.log"), limit_bytes=1 << 20)
    with disk_of(10):
        spool.put(b"x" * 50, 0.0)
        spool.close(5.0)
    assert (spool.size, spool.dropped, spool.untold) == (10, 40, 40)
    assert (tmp_path / "p0.log").stat().st_size == 10
