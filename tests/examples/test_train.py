"""The example program, as a real process, stops at a notice and resumes to the same result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TRAIN = Path(__file__).parents[2] / "examples" / "train.py"
STEPS = "--steps=60"
SLOW = "--step_seconds=30"  # longer than any test may take, so only a notice ends the pause


def start(folder: Path, *flags: str) -> subprocess.Popen[str]:
    """Start the program as Bastion would: marks, notice and output in `folder`, nothing else."""
    (folder / "marks").mkdir(parents=True, exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "OPENBLAS_NUM_THREADS": "1",
        "BASTION_OUTPUT_DIR": str(folder / "output"),
        "BASTION_MARKS_DIR": str(folder / "marks"),
        "BASTION_NOTICE_FILE": str(folder / "notice.json"),
    }
    return subprocess.Popen(
        [sys.executable, str(TRAIN), "--size=8", "--print_every=1", *flags],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines it printed; it must exit with 0."""
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return printed.splitlines()


def terminate(process: subprocess.Popen[str], folder: Path) -> None:
    """Request a stop by signal."""
    process.send_signal(signal.SIGTERM)


def notify(process: subprocess.Popen[str], folder: Path) -> None:
    """Request a stop by the notice file alone."""
    (folder / "notice.json").write_text('{"reason": "preempted"}')


@pytest.mark.parametrize("tell", [terminate, notify])
def test_a_stopped_run_resumes_to_the_same_loss(
    tmp_path: Path, tell: Callable[[subprocess.Popen[str], Path], None]
) -> None:
    """At a notice it saves and marks its state, and the next start ends as if never stopped."""
    whole = finish(start(tmp_path / "whole", STEPS))
    stopped = start(tmp_path, STEPS, SLOW)
    assert stopped.stdout is not None
    assert stopped.stdout.readline() == f"{whole[0]}\n"
    tell(stopped, tmp_path)
    printed, _ = stopped.communicate(timeout=60)
    assert printed == "stopped after step 1: state saved\n"
    assert stopped.returncode == 143
    assert (tmp_path / "marks" / "checkpointed").read_text() == "1\n"
    assert not (tmp_path / "marks" / "finished").exists()

    (tmp_path / "notice.json").unlink(missing_ok=True)
    assert finish(start(tmp_path, STEPS)) == ["resumed after step 1", *whole[1:]]
    assert (tmp_path / "marks" / "finished").read_text() == "60\n"


def test_a_killed_run_resumes_from_its_last_checkpoint(tmp_path: Path) -> None:
    """Killed without notice, it loses only the steps since the checkpoint it saves on its own."""
    whole = finish(start(tmp_path / "whole", STEPS))
    killed = start(tmp_path, STEPS, "--save_every=2", "--step_seconds=0.05")
    assert killed.stdout is not None
    assert any(line.startswith("step 5 ") for line in killed.stdout)
    killed.kill()
    killed.communicate(timeout=60)
    resumed, *rest = finish(start(tmp_path, STEPS))
    step = int(resumed.removeprefix("resumed after step "))
    assert step >= 4 and step % 2 == 0
    assert rest == whole[step:]


def test_it_learns(tmp_path: Path) -> None:
    """The loss falls: the example trains something."""
    first, *_, last = finish(start(tmp_path, "--steps=300"))
    assert float(last.split()[-1]) < float(first.split()[-1]) / 2


def test_it_works_without_bastion(tmp_path: Path) -> None:
    """With no variable of Bastion set it trains, and keeps its state where it was started."""
    done = subprocess.run(
        [sys.executable, str(TRAIN), "--steps=1", "--size=4"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("step 1 loss ")
    assert (tmp_path / "checkpoint-0.npz").exists()
