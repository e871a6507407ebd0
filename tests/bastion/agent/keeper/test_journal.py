"""The journal: synced, replayed, torn, full and compacted."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from bastion.agent.keeper.journal import Journal


def run(journal: Journal, key: str, *, size: int = 1000) -> None:
    """Start and end one attempt, whose record has `size` bytes."""
    journal.exec(key, at=1.0, processes=2)
    assert journal.commit()
    journal.leaders(key, "boot", [(10, 100), (11, 101)])
    journal.end(key, {"key": key, "text": "x" * size})
    assert journal.commit()


def opened(path: Path) -> Journal:
    return Journal(str(path / "journal"))


def test_replay_restores_every_line(tmp_path: Path) -> None:
    """A reopened journal has lives, starts, leaders and ends."""
    journal = opened(tmp_path)
    journal.begin(3)
    run(journal, "a")
    journal.exec("b", at=2.0, processes=1)
    assert journal.commit()
    again = opened(tmp_path)
    assert again.life == 3
    assert list(again.entries) == ["a", "b"]
    assert again.entries["a"].record()["key"] == "a"
    assert again.entries["a"].sessions("boot") == [(10, 100), (11, 101)]
    assert again.entries["a"].sessions("another boot") == []
    assert again.entries["b"].record() == {}
    assert again.entries["b"].started()["life"] == 3


def test_a_torn_line_is_cut(tmp_path: Path) -> None:
    """Half a last line, as after a crash, is ignored."""
    journal = opened(tmp_path)
    journal.begin(1)
    run(journal, "a")
    path = tmp_path / "journal"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"exec":"b","li')
    again = opened(tmp_path)
    assert list(again.entries) == ["a"]
    again.begin(2)
    assert opened(tmp_path).life == 2


@pytest.mark.parametrize("line", [b"\0\0\0", b"{}", b"[1]", b'{"end":"nobody","record":{}}', b"7"])
def test_a_strange_line_harms_only_itself(tmp_path: Path, line: bytes) -> None:
    """A line that cannot be parsed is skipped."""
    journal = opened(tmp_path)
    journal.begin(1)
    with (tmp_path / "journal").open("ab") as file:
        file.write(line + b"\n")
    again = opened(tmp_path)
    run(again, "a")
    assert list(opened(tmp_path).entries) == ["a"]


def test_lives_only_grow(tmp_path: Path) -> None:
    """A life that is over, or an older one, cannot start."""
    opened(tmp_path).begin(4)
    for life in (4, 3):
        with pytest.raises(ValueError, match="life"):
            opened(tmp_path).begin(life)
    opened(tmp_path).begin(5)


def test_forgotten_attempts_leave_the_file(tmp_path: Path) -> None:
    """The file stays small after any number of attempts, and keeps the ones not forgotten."""
    journal = opened(tmp_path)
    journal.begin(1)
    run(journal, "kept")
    for number in range(20):
        run(journal, f"a{number}", size=60_000)
        journal.forget(f"a{number}")
    assert (tmp_path / "journal").stat().st_size < 600_000
    again = opened(tmp_path)
    assert list(again.entries) == ["kept"]
    assert again.life == 1
    assert again.entries["kept"].sessions("boot") == [(10, 100), (11, 101)]


def test_a_full_disk_refuses_starts_and_keeps_ends(tmp_path: Path) -> None:
    """A commit without room fails; an end stays added and is written later."""
    journal = opened(tmp_path)
    journal.begin(1)
    journal.exec("a", at=1.0, processes=1)
    assert journal.commit()
    size = (tmp_path / "journal").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, before[1]))
    try:
        journal.end("a", {"key": "a"})
        journal.exec("b", at=1.0, processes=1)
        assert not journal.commit()
        journal.withdraw("b")
        assert journal.is_behind
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert list(opened(tmp_path).entries) == ["a"]
    assert journal.commit()
    assert opened(tmp_path).entries["a"].record() == {"key": "a"}
    assert list(opened(tmp_path).entries) == ["a"]
