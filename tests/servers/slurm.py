"""
A Slurm for tests: programs that answer like `sbatch`, `squeue`, `sinfo`, `scancel`, `scontrol`.

Its nodes are this machine, and jobs are real processes. It has no daemon: every call first advances
its world. All state is in one folder, so programs in other processes share it. The contract suite
runs against it and the real one (`slurmctld`).

Run as a program: `python slurm.py FOLDER sbatch ...`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PARTITIONS: Mapping[str, tuple[str, ...]] = {"main": ("n1", "n2"), "more": ("n3",)}
"""The first is the default."""
KILL_WAIT_S = 2.0

_PROGRAMS = ("sbatch", "squeue", "sinfo", "scancel", "scontrol", "srun")
_OVER = ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL")
_LIVE = ("RUNNING", "SUSPENDED", "COMPLETING")
_MARK = "SLURM_OF_TESTS"
_LOST = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"

Answer = tuple[int, str, str]
"""An exit code, the output, and the error output."""


class FakeSlurm:
    """
    A Slurm whose state is in `folder`, which exists.

    A file there is a fault. `down`: no program reaches the controller. `lost` and `dropped`: the
    answer of the next submission is lost, after or before it was carried out. `stays`: nothing is
    cancelled. `limited` and `refused`: nothing is accepted. `silent-n1`: that node does not answer.
    `owned`: only an operator resumes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._place = folder / "state.json"

    def set(self, trouble: str, *, is_on: bool = True) -> None:
        """Turn a fault on or off."""
        (self.folder / trouble).touch() if is_on else self._ends(trouble)

    def programs(self) -> Path:
        """Write its programs; return their folder."""
        bin_ = self.folder / "bin"
        bin_.mkdir(exist_ok=True)
        for name in _PROGRAMS:
            line = f'exec {sys.executable} -SE {__file__} {self.folder} {name} "$@"'
            (bin_ / name).write_text(f"#!/bin/sh\n{line}\n")
            (bin_ / name).chmod(0o755)
        return bin_

    def call(self, argv: Sequence[str], text: str, environ: Mapping[str, str]) -> Answer:
        """Run a program with that input and environment."""
        name, *said = argv
        with self._state() as state:
            if (self.folder / "down").exists():
                return 1, "", f"{name}: error: Unable to contact slurm controller\n"
            self._move_on(state)
            answer: Answer = getattr(self, f"_{name}")(state, said, text, environ)
            self._move_on(state)
            return answer

    def made(self) -> int:
        """Return how many jobs were ever accepted."""
        with self._state() as state:
            return len(state["jobs"])

    def fail_node(self, name: str) -> None:
        """Let Slurm lose the node of the job of that name; everything on it continues."""
        with self._state() as state:
            for job in _named(state, name):
                job["state"] = "NODE_FAIL"

    def end(self) -> None:
        """Kill everything that runs, including what is starting."""
        with self._state() as state:
            for job in state["jobs"].values():
                while left := list(self._processes(job)):
                    for pid in left:
                        _signal(pid, signal.SIGKILL)

    def _sbatch(
        self, state: Any, said: Sequence[str], text: str, environ: Mapping[str, str]
    ) -> Answer:
        flags = _flags(said)
        partition = flags.get("partition", next(iter(PARTITIONS)))
        failed = "sbatch: error: Batch job submission failed: "
        if (self.folder / "refused").exists() or partition not in PARTITIONS:
            return 1, "", f"{failed}Invalid partition name specified\n"
        if (self.folder / "limited").exists():
            why = "Job violates accounting/QOS policy (job submit limit, user's size and/or time)"
            return 1, "", f"{failed}{why}\n"
        if "test-only" in flags:
            return 0, "", "sbatch: Job 1 to start now\n"
        if self._ends("dropped"):
            return 1, "", _LOST
        state["last"] += 1
        number = str(state["last"])
        script = self.folder / f"script-{number}"
        script.write_text(text)
        state["jobs"][number] = {
            "id": number,
            "name": flags.get("job-name", "sbatch"),
            "state": "PENDING",
            "reason": "None",
            "partition": partition,
            "node": "",
            "at": time.strftime("%Y-%m-%dT%H:%M:%S"),
            "environ": dict(environ),
            "pid": 0,
            "ended": "",
        }
        self._move_on(state)
        return (1, "", _LOST) if self._ends("lost") else (0, f"{number}\n", "")

    def _squeue(
        self, state: Any, said: Sequence[str], text: str, environ: Mapping[str, str]
    ) -> Answer:
        flags = _flags(said)
        lines = []
        for job in state["jobs"].values():
            if flags.get("name", job["name"]) != job["name"]:
                continue
            wanted = flags.get("states", "")
            if job["state"] in _OVER if not wanted else wanted not in ("all", job["state"].lower()):
                continue
            line = flags["format"]
            kept = {"%i": "id", "%A": "id", "%T": "state", "%P": "partition", "%V": "at"}
            for mark, key in {**kept, "%N": "node", "%r": "reason", "%j": "name"}.items():
                line = line.replace(mark, job[key])
            lines.append(f"{line}\n")
        return 0, "".join(lines), ""

    def _sinfo(
        self, state: Any, said: Sequence[str], text: str, environ: Mapping[str, str]
    ) -> Answer:
        lines = []
        for node in _flags(said)["nodes"].split(","):
            is_silent = (self.folder / f"silent-{node}").exists()
            lines.append(f"{node}|{'down*' if is_silent else 'idle'}\n")
        return 0, "".join(lines), ""

    def _scancel(
        self, state: Any, said: Sequence[str], text: str, environ: Mapping[str, str]
    ) -> Answer:
        name = _flags(said).get("name")
        chosen = _named(state, name) if name else [state["jobs"][each] for each in said]
        if (self.folder / "stays").exists():
            return 0, "", ""
        for job in chosen:
            if job["state"] == "PENDING":
                job["state"] = "CANCELLED"
            elif job["state"] in ("RUNNING", "SUSPENDED"):
                self._begin_end(job, "CANCELLED")
        return 0, "", ""

    def _scontrol(
        self, state: Any, said: Sequence[str], text: str, environ: Mapping[str, str]
    ) -> Answer:
        if said[0] == "resume" and (self.folder / "owned").exists():
            return 1, "", "scontrol: error: Access/permission denied\n"
        job = state["jobs"][said[1]]
        is_stopped = said[0] == "suspend"
        job["state"] = "SUSPENDED" if is_stopped else "RUNNING"
        for pid in self._processes(job):
            _signal(pid, signal.SIGSTOP if is_stopped else signal.SIGCONT)
        return 0, "", ""

    def _move_on(self, state: Any) -> None:
        """End jobs that are over, and start waiting ones on free nodes."""
        for job in state["jobs"].values():
            if job["state"] == "RUNNING" and not _lives(job["pid"]):
                self._begin_end(job, "COMPLETED")
            elif job["state"] == "COMPLETING":
                self._go_on_ending(job)
        used = {job["node"] for job in state["jobs"].values() if job["state"] in _LIVE}
        names = {job["name"] for job in state["jobs"].values() if job["state"] in _LIVE}
        for job in state["jobs"].values():
            if job["state"] != "PENDING":
                continue
            free = [node for node in PARTITIONS[job["partition"]] if node not in used]
            if job["name"] in names:
                job["reason"] = "Dependency"
            elif not free:
                job["reason"] = "Resources"
            else:
                self._begin(job, free[0])
                used.add(free[0])
            names.add(job["name"])

    def _begin(self, job: Any, node: str) -> None:
        folder = self.folder / node
        folder.mkdir(exist_ok=True)
        script = str(self.folder / f"script-{job['id']}")
        said = {"SLURM_JOB_ID": job["id"], "SLURMD_NODENAME": node, "SLURM_TMPDIR": str(folder)}
        environ = {**job["environ"], **said, _MARK: f"{self.folder}:{job['id']}"}
        # The batch script is told its own process.
        line = 'SLURM_TASK_PID=$$; export SLURM_TASK_PID; exec /bin/sh "$0"'
        with (self.folder / f"out-{job['id']}").open("wb") as out:
            begun = subprocess.Popen(
                ["/bin/sh", "-c", line, script],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environ,
                cwd="/",
                start_new_session=True,
            )
        job |= {"state": "RUNNING", "reason": "None", "node": node, "pid": begun.pid}

    def _begin_end(self, job: Any, ended: str) -> None:
        job |= {"state": "COMPLETING", "ended": ended, "until": time.monotonic() + KILL_WAIT_S}
        for pid in self._processes(job):
            _signal(pid, signal.SIGCONT)
            _signal(pid, signal.SIGTERM)
        self._go_on_ending(job)

    def _go_on_ending(self, job: Any) -> None:
        left = list(self._processes(job))
        if not left:
            job["state"] = job["ended"]
        elif time.monotonic() > job["until"]:
            for pid in left:
                _signal(pid, signal.SIGKILL)

    def _processes(self, job: Any) -> Iterator[int]:
        """Yield the processes of a job, and those that they have started."""
        mark = f"{_MARK}={self.folder}:{job['id']}".encode()
        children: dict[int, list[int]] = {}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            pid = int(folder.name)
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if fields[0] == "Z":
                    continue
                children.setdefault(int(fields[1]), []).append(pid)
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(pid)
        seen: set[int] = set()
        while found:
            pid = found.pop()
            if pid not in seen:
                seen.add(pid)
                found += children.get(pid, [])
                yield pid

    def _ends(self, trouble: str) -> bool:
        """Whether a fault was on; it is off from now on."""
        was_on = (self.folder / trouble).exists()
        (self.folder / trouble).unlink(missing_ok=True)
        return was_on

    @contextlib.contextmanager
    def _state(self) -> Iterator[Any]:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            is_new = not self._place.exists()
            state = {"last": 0, "jobs": {}} if is_new else json.loads(self._place.read_text())
            try:
                yield state
            finally:
                self._place.write_text(json.dumps(state))


def _flags(said: Sequence[str]) -> dict[str, str]:
    pairs = (word.removeprefix("--").partition("=") for word in said if word.startswith("--"))
    return {name: text for name, _, text in pairs}


def _named(state: Any, name: str) -> list[Any]:
    return [job for job in state["jobs"].values() if job["name"] == name]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _srun(slurm: FakeSlurm, said: Sequence[str]) -> int:
    """Run a step of a job here, beside it."""
    first = next(at for at, word in enumerate(said) if not word.startswith("--"))
    return subprocess.run(said[first:], check=False).returncode


def main() -> int:
    """Run the program that the command line names."""
    folder, name, *said = sys.argv[1:]
    slurm = FakeSlurm(Path(folder))
    if name == "srun":
        return _srun(slurm, said)
    text = sys.stdin.read() if name == "sbatch" else ""
    code, out, err = slurm.call([name, *said], text, os.environ)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code


if __name__ == "__main__":
    sys.exit(main())
