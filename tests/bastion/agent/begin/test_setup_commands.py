"""The commands of a pool run once, in order, and the first failure is reported."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import psutil

from bastion.agent.begin.setup_commands import TEXT_CHARACTERS, run_setup
from bastion.agent.machine.stray_processes import boot_id, look


def test_they_run_in_order_and_once(tmp_path: Path) -> None:
    """A second start runs none of them; changed commands are run."""
    commands = ("echo one >>ran", "echo two >>ran")
    assert run_setup(commands, tmp_path) == ""
    assert run_setup(commands, tmp_path) == ""
    assert (tmp_path / "ran").read_text() == "one\ntwo\n"
    assert run_setup((*commands, "echo three >>ran"), tmp_path) == ""
    assert (tmp_path / "ran").read_text().split() == ["one", "two", "one", "two", "three"]


def test_the_first_failure_ends_it_with_its_output(tmp_path: Path) -> None:
    """The error has the command, its code and its last output; later commands do not run."""
    why = run_setup(("true", "echo no such package >&2; exit 4", "touch later"), tmp_path)
    assert why.startswith("command 2 of 3, ")
    assert why.endswith(", exited with 4: no such package")
    assert not (tmp_path / "later").exists()
    assert run_setup(("true",), tmp_path) == "", "it may be tried again"


def test_a_long_output_is_cut_at_its_begin(tmp_path: Path) -> None:
    """The end is the most informative part, and the state of a bastion is small."""
    why = run_setup(("seq 100000; exit 1",), tmp_path)
    assert len(why) < TEXT_CHARACTERS + 300
    assert why.endswith("100000")


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    """It fails when its time is over, and nothing that it started continues."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    held = os.open(gate, os.O_RDONLY | os.O_NONBLOCK)
    why = run_setup(("exec >gate; sleep 600; true",), tmp_path, timeout_s=0.5)
    assert "took more than 0.5 s" in why
    is_over, _, _ = select.select([held], [], [], 20.0)
    assert is_over, "its sleep still holds the pipe"
    assert os.read(held, 1) == b""
    os.close(held)


def _left(command: str, folder: Path) -> None:
    """Let an agent die while it runs `command`, which creates the file `begun`."""
    program = (
        "import sys, pathlib, bastion.agent.begin.setup_commands as s;"
        " s.run_setup((sys.argv[1],), pathlib.Path(sys.argv[2]))"
    )
    os.mkfifo(folder / "begun")
    agent = subprocess.Popen([sys.executable, "-c", program, command, str(folder)])
    (folder / "begun").read_text()
    note = folder / "setup.running"
    while not (note.exists() and note.read_text()):
        assert agent.poll() is None
    agent.kill()
    agent.wait()


def test_a_command_that_a_dead_agent_left_is_ended_before_another(tmp_path: Path) -> None:
    """An admin has corrected it: the two would run concurrently and write to one log."""
    _left("echo $$ >>pid; echo >begun; sleep 600; true", tmp_path)
    assert run_setup(("echo corrected >>ran",), tmp_path) == ""
    pid = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert not (tmp_path / "setup.running").exists()


def test_the_same_command_that_a_dead_agent_left_is_waited_for(tmp_path: Path) -> None:
    """A package installation is not killed in the middle, nor run concurrently."""
    waits = "while kill -0 $PPID; do sleep 0.05; done; sleep 0.3"
    command = f"[ -e again ] || {{ touch again; echo >begun; {waits}; }}; echo done >>ran"
    _left(command, tmp_path)
    assert run_setup((command,), tmp_path) == ""
    assert (tmp_path / "ran").read_text() == "done\ndone\n"


def test_a_clock_that_is_set_does_not_hide_a_command(tmp_path: Path) -> None:
    """The note has no time of day: a new machine sets its clock while its commands run."""
    _left("echo >begun; sleep 600; true", tmp_path)
    pid, boot, start, _ = json.loads((tmp_path / "setup.running").read_text())
    left = look(pid)
    assert left is not None
    assert (boot, start) == (boot_id(), left.start)
    assert run_setup(("true",), tmp_path) == ""


def test_a_note_of_a_command_that_has_ended_is_no_harm(tmp_path: Path) -> None:
    """The process number may be reused by now, and the note may be cut off."""
    for note in ("", "[1", f'[{os.getpid()}, "x", 5, "true"]', "{}"):
        (tmp_path / "setup.running").write_text(note)
        assert run_setup((f"echo {len(note)}",), tmp_path) == ""
