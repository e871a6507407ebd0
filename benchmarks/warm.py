"""
From a submission to the first line of its log, with code and a Python environment, cold and warm.

Run it with `python -m benchmarks.warm`; it leaves nothing behind. The bastion is its own process on
a folder, and so is its machine. For a cold start the environment is built, with `venv` and `pip` or
with uv if it is in the PATH. For a warm start, one line of the code was changed but the lock file
was not.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from bastion.client import Client
from bastion.clock import SystemClock
from bastion.spec import Job, Launch, Process, PythonEnv
from benchmarks.table import show
from bundler.code import LocalDir
from launch.demo.stage import Stage

RUNS = 7


def main() -> None:
    """Submit once cold, then repeatedly."""
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "code")
        code.mkdir()
        (code / "requirements.txt").write_text("--no-index\n")
        stage = Stage(Path(folder, "stage"), SystemClock())
        stage.furnish()
        with stage.bastion():
            client = Client(stage.url, user="ada")
            _first_line(client, code, 0, with_env=False)  # until the machine is ready
            bare = [_first_line(client, code, n, with_env=False) for n in range(RUNS)]
            cold = _first_line(client, code, RUNS, with_env=True)
            warm = [_first_line(client, code, RUNS + 1 + n, with_env=True) for n in range(RUNS)]
    rows = (("code alone", median(bare)), ("cold environment", cold), ("warm", median(warm)))
    show([{"submission to first log line": what, "seconds": took} for what, took in rows])


def _first_line(client: Client, code: Path, number: int, *, with_env: bool) -> float:
    (code / "train.py").write_text(f"print({number})\n")
    job = Job(name="train", processes=(Process(["python3", "train.py"]),))
    launch = Launch(
        name="warm",
        jobs=(job,),
        project="vision",
        code=LocalDir(str(code)),
        python=PythonEnv() if with_env else None,
    )
    began = time.perf_counter()
    handle = client.launch(launch)
    while not handle.logs("train"):
        time.sleep(0.005)
    took = time.perf_counter() - began
    handle.wait()
    return took


if __name__ == "__main__":
    main()
