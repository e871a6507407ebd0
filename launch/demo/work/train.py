"""
Fit a line to points by gradient descent, the way a job on shared machines should.

It saves its state regularly and when it is told to stop; the next start resumes from there. It uses
only the standard library: everything that it needs from Bastion is in variables and plain files.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

POINTS = [(x / 10, 3 * x / 10 + 2) for x in range(-10, 11)]
LEARNING_RATE = 0.05
STOPPED = 128 + signal.SIGTERM

told = threading.Event()


def main() -> int:
    """Train until done or told to stop; return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    flags = parse_flags()
    step, slope, offset = load()
    while step < flags.steps:
        step += 1
        slope, offset = descend(slope, offset)
        if told.wait(flags.step_seconds):
            save(step, slope, offset)
            print(f"told to stop: saved step {step}", flush=True)
            return STOPPED
        if step % flags.save_every == 0:
            save(step, slope, offset)
            print(f"step {step} loss {loss(slope, offset):.6f}, saved", flush=True)
    print(f"trained: y = {slope:.3f} x + {offset:.3f}", flush=True)
    return int(flags.exit_code)


def parse_flags() -> argparse.Namespace:
    """Return the flags of the job."""
    parser = argparse.ArgumentParser(
        description="Fit a line; can be stopped and resumed at any time."
    )
    parser.add_argument(
        "--steps", type=int, default=100, help="total number of steps, including earlier starts"
    )
    parser.add_argument("--step_seconds", type=float, default=0.1, help="pause per step")
    parser.add_argument("--save_every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--exit_code", type=int, default=0, help="exit code at the end")
    return parser.parse_args()


def checkpoint() -> Path:
    """Return the file that keeps the state between attempts."""
    return Path(os.environ.get("BASTION_OUTPUT_DIR", ".")) / "checkpoint.json"


def load() -> tuple[int, float, float]:
    """Return the step, slope and offset to resume from."""
    if not checkpoint().exists():
        return 0, 0.0, 0.0
    step, slope, offset = json.loads(checkpoint().read_text())
    print(f"resumed after step {step}", flush=True)
    return step, slope, offset


def save(step: int, slope: float, offset: float) -> None:
    """Write the state atomically, then tell Bastion that it is saved."""
    new = checkpoint().with_suffix(".new")
    new.write_text(json.dumps([step, slope, offset]))
    new.replace(checkpoint())
    if marks := os.environ.get("BASTION_MARKS_DIR"):
        (Path(marks) / "checkpointed").write_text(f"{step}\n")


def descend(slope: float, offset: float) -> tuple[float, float]:
    """Do one step of gradient descent."""
    errors = [(slope * x + offset - y, x) for x, y in POINTS]
    by_slope = sum(error * x for error, x in errors) / len(errors)
    by_offset = sum(error for error, _ in errors) / len(errors)
    return slope - LEARNING_RATE * by_slope, offset - LEARNING_RATE * by_offset


def loss(slope: float, offset: float) -> float:
    """Return the mean squared error."""
    return sum((slope * x + offset - y) ** 2 for x, y in POINTS) / len(POINTS)


if __name__ == "__main__":
    sys.exit(main())
