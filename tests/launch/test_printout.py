"""Notes about a followed job stay out of the lines that it prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from bastion.client import Chunk, JobView
from bastion.clock import VirtualClock
from bastion.records.keys.layout import LogStream
from bastion.value import replace
from launch.screen.followed import Teller, write
from launch.screen.printout import Printout

RUNNING = "train is running: on vm-1"


class Screen:
    """One file that receives both stdout and stderr, like a terminal."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.clock = VirtualClock()
        self.out = Printout(self.clock)

    @property
    def shown(self) -> str:
        """Return everything that was written so far."""
        return self._path.read_text()


@contextmanager
def screen(folder: Path) -> Iterator[Screen]:
    """Provide a screen on which a job is followed."""
    path = folder / "screen"
    with path.open("w") as both, redirect_stdout(both), redirect_stderr(both):
        yield Screen(path)


def job(state: str) -> JobView:
    """Return a job in `state`."""
    return JobView(
        id="train",
        name="train",
        project="p",
        user="ada",
        launch="train",
        state=state,
        text="on vm-1",
    )


def test_a_note_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    """The line arrives in two parts; events in between are printed after it, once."""
    with screen(tmp_path) as seen:
        tell = Teller(seen.out, quiet=False)
        seen.out.write(b"one\ntw")
        tell(job("running"))
        seen.out.write(b"o")
        seen.clock.advance(4)
        tell(job("running"))
        assert seen.shown == "one\ntwo"
        seen.out.write(b"\n")
        tell(job("running"))
        tell(job("running"))
        assert seen.shown == f"one\ntwo\n{RUNNING}\n"


@pytest.mark.parametrize(
    ("state", "notes"),
    [("running", 2), ("queued", 3)],
)
def test_what_a_running_job_holds_is_no_news(tmp_path: Path, state: str, notes: int) -> None:
    """Its project's other jobs change it; for a waiting job, each number counts."""
    with screen(tmp_path) as seen:
        tell = Teller(seen.out, quiet=False)
        for text in ("blue holds 4 h100", "blue holds 12 h100", "borrowed: blue holds 12 h100"):
            tell(replace(job(state), text=text))
        assert len(seen.shown.splitlines()) == notes


def test_a_line_that_does_not_end_is_broken(tmp_path: Path) -> None:
    """A progress bar continues for hours, and events of its job are still printed."""
    with screen(tmp_path) as seen:
        tell = Teller(seen.out, quiet=False)
        for percent in range(3):
            seen.out.write(b"%d %% " % percent)
            seen.clock.advance(2)
        tell(job("running"))
        assert seen.shown == f"0 % 1 % 2 % \n{RUNNING}\n"


def test_each_line_has_its_own_time_to_end(tmp_path: Path) -> None:
    """Many lines that arrive in parts are not mistaken for one that never ends."""
    with screen(tmp_path) as seen:
        tell = Teller(seen.out, quiet=False)
        seen.out.write(b"on")
        seen.clock.advance(4)
        seen.out.write(b"e\ntw")
        seen.clock.advance(4)
        tell(job("running"))
        assert seen.shown == "one\ntw"


def test_the_end_is_told_on_a_line_of_its_own(tmp_path: Path) -> None:
    """If the last line of a job has no end, its outcome is not printed within that line."""
    with screen(tmp_path) as seen:
        seen.out.write(b"done")
        seen.out.end_line()
        seen.out.end_line()
        assert seen.shown == "done\n"


def test_nothing_waits_where_stdout_goes_elsewhere(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """With stdout in a file, notes are immediate, and no line is broken on the screen."""
    out = Printout(VirtualClock())
    out.write(b"half")
    Teller(out, quiet=False)(job("running"))
    out.end_line()
    assert capfdbinary.readouterr() == (b"half", f"{RUNNING}\n".encode())


def test_lines_of_several_processes_are_whole(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Without a prefix, output is exact; that of several processes is written line by line."""
    chunks = [chunk(0, b"one"), chunk(1, b"two\nth"), chunk(0, b" more\n"), chunk(1, b"ree")]
    write(iter(chunks), Printout(VirtualClock()), prefix=False, several=True)
    assert capfdbinary.readouterr().out == b"two\none more\nthree"
    write(iter(chunks), Printout(VirtualClock()), prefix=False)
    assert capfdbinary.readouterr().out == b"onetwo\nth more\nree"


def chunk(replica: int, data: bytes) -> Chunk:
    """Return what one replica printed."""
    stream = LogStream(attempt=1, replica=replica, host=0, process=0)
    return Chunk(job="train", stream=stream, offset=0, data=data)


def test_the_lines_of_hosts_and_attempts_are_apart(tmp_path: Path) -> None:
    """Partial lines are never joined to those of another, and a second host is named."""

    def chunk(attempt: int, host: int, data: bytes) -> Chunk:
        stream = LogStream(attempt=attempt, replica=0, host=host, process=0)
        return Chunk(job="train", stream=stream, offset=0, data=data)

    chunks = [
        chunk(1, 0, b"host0 half"),
        chunk(1, 1, b"host1 half"),
        chunk(1, 0, b" done\nlos"),
        chunk(2, 0, b"resumed\n"),
        chunk(1, 1, b" done"),
    ]
    with screen(tmp_path) as it:
        write(iter(chunks), it.out, prefix=True)
    assert it.shown.splitlines() == [
        "r0/p0 | host0 half done",
        "r0/p0 | los",
        "r0/p0 | resumed",
        "r0/h1/p0 | host1 half done",
    ]
    with screen(tmp_path) as it:
        write(iter(chunks), it.out, prefix=False, several=True)
    assert it.shown == "host0 half done\nlos\nresumed\nhost1 half done"
