"""What a running job can report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bastion import marks


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the folder of marks of a job, as its environment names it."""
    monkeypatch.setenv(marks.MARKS_DIR, str(tmp_path))
    monkeypatch.setenv(marks.NOTICE_FILE, str(tmp_path / "notice.json"))
    return tmp_path


def test_marks_are_plain_files(folder: Path) -> None:
    """Each mark is a file of its name; a repeated mark is newer."""
    marks.checkpointed()
    first = (folder / "checkpointed").stat().st_mtime_ns
    marks.checkpointed()
    assert (folder / "checkpointed").stat().st_mtime_ns > first
    marks.finished()
    assert sorted(path.name for path in folder.iterdir()) == ["checkpointed", "finished"]


def test_reports_are_lines_of_numbers(folder: Path) -> None:
    """There is one JSON object per line; values that are not numbers are refused."""
    marks.report(loss=0.5, step=1)
    marks.report(loss=0.25, step=2)
    lines = (folder / "report").read_text().splitlines()
    assert list(map(json.loads, lines)) == [{"loss": 0.5, "step": 1}, {"loss": 0.25, "step": 2}]
    with pytest.raises(TypeError, match=r"report\(loss='low'\): not a number"):
        marks.report(loss="low")  # type: ignore[arg-type]


def test_a_notice_is_read_once_it_is_there(folder: Path) -> None:
    """It is None before; then it has the reason, the cause and the deadline."""
    assert marks.notice() is None
    told = {"reason": "preempt", "by": "urgent-0123456789", "deadline": 1.7e9}
    (folder / "notice.json").write_text(json.dumps(told))
    assert marks.notice() == told


def test_outside_a_job_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same program runs without Bastion."""
    monkeypatch.delenv(marks.MARKS_DIR, raising=False)
    monkeypatch.delenv(marks.NOTICE_FILE, raising=False)
    monkeypatch.chdir(tmp_path)
    marks.checkpointed()
    marks.finished()
    marks.report(loss=1)
    assert marks.notice() is None
    assert not list(tmp_path.iterdir())
