"""
Train a small network in plain NumPy, in the way that a job on shared machines should.

You can stop it at any moment and start it again. It saves its state at intervals and when it must
stop. The next start resumes from that state and produces exactly the same result. Everything that
it needs from Bastion is in environment variables and plain files; without them it is an ordinary
program.

    python3 examples/train.py --steps=200
    python3 examples/train.py --steps=200 --step_seconds=0.1    # slow enough to interrupt

Exit code: 0 when trained, 143 when stopped (the code that a shell reports after SIGTERM).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

Arrays = dict[str, np.ndarray]

EXAMPLES = 64  # per batch
LEARNING_RATE = 0.05
STOPPED = 128 + signal.SIGTERM

told_to_stop = False


def main() -> int:
    """Train until done or stopped; return the exit code."""
    signal.signal(signal.SIGTERM, stop_soon)
    flags = parse_flags()
    begin, weights = load(flags.size)
    for step in range(begin, flags.steps):
        loss = train(weights, *batch(step, flags.size))
        done = step + 1
        if done % flags.print_every == 0 or done == flags.steps:
            print(f"step {done} loss {loss:.6f}", flush=True)
        wait(flags.step_seconds)
        if must_stop() and done < flags.steps:
            save(done, weights)
            print(f"stopped after step {done}: state saved", flush=True)
            return STOPPED
        if done % flags.save_every == 0:
            save(done, weights)
    save(flags.steps, weights)
    mark("finished", f"{flags.steps}\n")
    return 0


def parse_flags() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Train a small network; stop and resume at will.")
    parser.add_argument("--steps", type=int, default=200, help="in all, earlier starts included")
    parser.add_argument("--step_seconds", type=float, default=0.0, help="pause after each step")
    parser.add_argument("--size", type=int, default=32, help="inputs and hidden units")
    parser.add_argument("--print_every", type=int, default=20, help="steps between losses")
    parser.add_argument("--save_every", type=int, default=50, help="steps between checkpoints")
    return parser.parse_args()


def stop_soon(_signum: int, _frame: object) -> None:
    """Record a SIGTERM; the training loop checks for it between steps."""
    global told_to_stop
    told_to_stop = True


def must_stop() -> bool:
    """Whether a SIGTERM, or the notice of a preemption or a cancellation, has arrived."""
    notice = os.environ.get("BASTION_NOTICE_FILE")
    return told_to_stop or bool(notice and Path(notice).exists())


def wait(seconds: float) -> None:
    """Pause for `seconds`, or until a stop is requested."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not must_stop():
        time.sleep(min(left, 0.05))


def checkpoint() -> Path:
    """Where this process keeps its state from one attempt to the next."""
    process = os.environ.get("BASTION_PROCESS_INDEX_ACROSS_ALL_REPLICAS", "0")
    return Path(os.environ.get("BASTION_OUTPUT_DIR", ".")) / f"checkpoint-{process}.npz"


def save(step: int, weights: Arrays) -> None:
    """
    Write the state after `step` steps, then mark the checkpoint for Bastion.

    The file is replaced atomically: a kill while saving costs only the steps since the last save.
    """
    kept = checkpoint()
    kept.parent.mkdir(parents=True, exist_ok=True)
    new = kept.with_suffix(".tmp")
    with new.open("wb") as file:
        np.savez(file, step=step, hidden=weights["hidden"], output=weights["output"])
        file.flush()
        os.fsync(file.fileno())
    new.replace(kept)
    mark("checkpointed", f"{step}\n")


def load(size: int) -> tuple[int, Arrays]:
    """Return the step to resume from and its weights; start from scratch if nothing was saved."""
    if not checkpoint().exists():
        return 0, fresh(size)
    with np.load(checkpoint()) as saved:
        state = dict(saved)
    step = int(state.pop("step"))
    if state["hidden"].shape != (size, size):
        sys.exit(f"{checkpoint()} holds a network of size {len(state['hidden'])}, not {size}")
    print(f"resumed after step {step}", flush=True)
    return step, state


def mark(name: str, text: str) -> None:
    """Write a mark for Bastion: a plain file in the folder that it provides, if any."""
    if folder := os.environ.get("BASTION_MARKS_DIR"):
        (Path(folder) / name).write_text(text)


def fresh(size: int) -> Arrays:
    """Weights of an untrained network: `size` inputs, `size` hidden units, one output."""
    draws = np.random.default_rng(0)
    scale = size**-0.5
    return {
        "hidden": draws.normal(scale=scale, size=(size, size)),
        "output": draws.normal(scale=scale, size=(size, 1)),
    }


def batch(step: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The data of one step. It depends only on the step, so a resumed run sees the same data."""
    inputs = np.random.default_rng((1, step)).normal(size=(EXAMPLES, size))
    teacher = np.random.default_rng(2).normal(scale=size**-0.5, size=(size, 1))
    return inputs, np.sin(inputs @ teacher)


def train(weights: Arrays, inputs: np.ndarray, targets: np.ndarray) -> float:
    """Take one step of gradient descent in place, and return the loss before the step."""
    active = np.tanh(inputs @ weights["hidden"])
    error = active @ weights["output"] - targets
    slope = 2 * error / len(inputs)
    back = slope @ weights["output"].T * (1 - active**2)
    weights["output"] -= LEARNING_RATE * active.T @ slope
    weights["hidden"] -= LEARNING_RATE * inputs.T @ back
    return float(np.mean(error**2))


if __name__ == "__main__":
    sys.exit(main())
