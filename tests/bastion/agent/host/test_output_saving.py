"""When a host's output is saved, and what happens if it cannot be read."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bastion.agent.errands import Errands
from bastion.agent.home import FolderHome
from bastion.agent.host.output_saving import Saving
from bastion.lane import InlineLane
from bastion.store.memory import MemoryStore
from bastion.store.port import ObjectStore, Written
from tests.rigs.agent import OF


class Starved(MemoryStore):
    """A store whose caller's machine first fails with these errors."""

    def __init__(self, errors: list[int | Exception]) -> None:
        super().__init__(lambda: 0.0)
        self.errors = errors

    def create(self, key: str, data: bytes) -> Written:
        """Fail, while there are errors left."""
        if self.errors:
            error = self.errors.pop()
            raise OSError(error, os.strerror(error)) if isinstance(error, int) else error
        return super().create(key, data)


class Bench:
    """One host with some output."""

    def __init__(self, folder: Path, *errors: int | Exception) -> None:
        self.store: ObjectStore = Starved(list(errors))
        self.said: list[str] = []
        self.told: list[str] = []
        home = FolderHome(folder)
        Path(home.folders("k").output, "model").write_text("weights")
        around: Any = SimpleNamespace(
            store=self.store,
            home=home,
            errands=Errands(InlineLane(), InlineLane(), retry_s=1.0, say=self.said.append),
            say=self.said.append,
            moment=lambda: 7,
            bells=SimpleNamespace(ring=lambda fact: self.told.append(fact.text)),
        )
        self.errands = around.errands
        self.saving = Saving(OF, "k", around)
        self.now = 0.0

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        deadline = self.now + seconds
        while self.now < deadline:
            self.errands.collect(self.now)
            self.saving.turn(self.now)
            self.now += 0.1
        self.errands.collect(self.now)

    def is_done(self) -> bool:
        """Whether nothing is left to save."""
        return self.saving.is_done

    def kept(self) -> int:
        """Return how many lists of files are in the bucket."""
        return sum("/saved/" in entry.key for entry in self.store.list(""))


def test_output_is_kept_when_the_machine_can_read_it_again(tmp_path: Path) -> None:
    """A machine without descriptors saves the output of a job later, without a report."""
    bench = Bench(tmp_path, *[errno.EMFILE] * 5)
    bench.saving.ask()
    bench.pass_s(1.0)
    assert not bench.is_done()
    bench.pass_s(60.0)
    assert bench.is_done()
    assert (bench.kept(), bench.said, bench.told) == (1, [], [])


@pytest.mark.parametrize("errors", [[errno.EACCES], [errno.EIO] * 100])
def test_output_that_cannot_be_read_is_told(tmp_path: Path, errors: list[int]) -> None:
    """A permanent error that is not the machine's is reported once and delays no end."""
    bench = Bench(tmp_path, *errors)
    bench.saving.ask()
    bench.pass_s(400.0)
    assert bench.is_done()
    assert len(bench.said) == 1
    assert "its output is not kept" in bench.said[0]
    text = os.strerror(errors[0])
    assert bench.told == [f"[Errno {errors[0]}] {text}"]
    assert not bench.saving.is_kept


def test_an_error_without_words_is_told_by_its_name(tmp_path: Path) -> None:
    """An empty text would mean that the output is saved."""
    bench = Bench(tmp_path, *[MemoryError() for _ in range(100)])
    bench.saving.ask()
    bench.pass_s(400.0)
    assert bench.told == ["MemoryError()"]


def test_output_that_is_kept_after_all_is_told(tmp_path: Path) -> None:
    """A later success cancels the report of this agent or an earlier one."""
    bench = Bench(tmp_path, errno.EACCES)
    for _ in range(3):
        bench.saving.ask()
        bench.pass_s(1.0)
    assert [bool(text) for text in bench.told] == [True, False]
    bench = Bench(tmp_path)
    bench.saving.adopt()
    assert not bench.saving.is_kept, "an earlier agent may have told that it is not"
    for _ in range(2):
        bench.saving.ask()
        bench.pass_s(1.0)
    assert bench.told == [""]
    assert bench.saving.is_kept


def test_a_saving_that_outlasts_its_host_is_told_at_times(tmp_path: Path) -> None:
    """The job waits as long as it is reported, and the last report is that it is saved."""
    bench = Bench(tmp_path)
    bench.saving.ask()
    bench.saving.turn(0.0)  # the errand is not collected: it takes that long
    for now in range(1, 3700, 5):
        bench.saving.finish(float(now))
    assert set(bench.told) == {"it is still being saved"}
    assert len(bench.told) == 79
    bench.errands.collect(3700.0)
    assert bench.is_done()
    assert bench.told[-1] == ""
