"""The start and the end of the installed command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch.bucket import JOB, Bucket
from tests.launch.process import ROOT, environment
from tests.rigs.scripted_bastion import publish, row

START = (sys.executable, "-m", "launch.start")


def ended(code: str) -> subprocess.CompletedProcess[str]:
    """Run a process with `code`, then `end(7)`, then a print that it came back."""
    lines = ("from launch.start import end", code, "end(7)", "print('came back')")
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_was_printed_and_registered_is_done_before_the_end() -> None:
    """Buffered output arrives, `atexit` functions run, and the code is the command's."""
    ran = ended(
        "import atexit, sys\natexit.register(print, 'last')\n"
        "print('first')\nsys.stderr.write('told')"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "first\nlast\n", "told")


def test_a_thread_that_still_works_is_left_to_python() -> None:
    """Python waits for it; an immediate end would lose its work."""
    ran = ended(
        "import threading\n"
        "def work():\n threading.main_thread().join()\n print('worked')\n"
        "threading.Thread(target=work).start()"
    )
    assert (ran.returncode, ran.stdout) == (0, "came back\nworked\n")


def test_windows_is_refused_before_anything_is_loaded() -> None:
    """The modules that are loaded next do not exist there."""
    code = "import os; os.name = 'nt'\nfrom launch.start import start\nraise SystemExit(start())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: Bastion runs on Linux and macOS only\nhint: on Windows,")


def test_output_that_cannot_be_written_is_left_to_python() -> None:
    """Python reports it, and its exit code says so."""
    ran = ended("import os, sys\nprint('lost')\nos.close(1)")
    assert ran.returncode == 120
    assert "Bad file descriptor" in ran.stderr


@pytest.mark.parametrize(("closed", "told"), [(">&-", True), (">&- 2>&-", False)])
def test_closed_output_is_told_in_a_line(closed: str, told: bool) -> None:
    """If nothing can be printed, the exit code still says that it failed."""
    ran = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *START, "--version"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, bool(ran.stderr)) == (1, "", told)
    assert not told or ran.stderr.startswith("error: standard output is closed\nhint: ")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(("words", "code"), [(["list", "-q"], 0), (["list", "--foo"], 2)])
def test_the_installed_command_gives_its_output_and_its_code(
    words: list[str], code: int, tmp_path: Path
) -> None:
    """All of a long output arrives in a pipe, and the exit code is the verb's."""
    bucket = Bucket(tmp_path / "bucket")
    jobs = [row(JOB), *(row(f"a-{n:010d}") for n in range(5000))]
    publish(bucket.store, "queue", {"jobs": jobs})
    ran = subprocess.run(
        [*START, *words],
        env=environment(bucket, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code
    assert len(ran.stdout.splitlines()) == (0 if code else 5001)


def test_an_interrupt_while_it_loads_ends_it_as_any_other_tool() -> None:
    """There is no traceback, and the shell sees the signal itself: a loop around it ends too."""
    ran = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys\n"
            "class Interrupted:\n"
            "    def find_spec(self, name, *_):\n"
            "        if name == 'launch.cli': raise KeyboardInterrupt\n"
            "sys.meta_path.insert(0, Interrupted())\n"
            "from launch.start import start\nstart()",
        ],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")


def test_a_file_of_the_user_is_not_taken_for_the_program(tmp_path: Path) -> None:
    """PYTHONPATH precedes installed packages: files there with our names are not run."""
    for name in ("launch", "bundler", "quota"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the user was run')\n")
    ran = subprocess.run(
        [sys.executable, "-m", "bastion.command", "quota", "check", "none.toml"],
        env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: none.toml: ")
