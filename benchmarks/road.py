"""
The whole path of a job on this machine: `python -m benchmarks.road`.

It uses a real bastion, two real machines and real processes on a folder. It measures the time from
a submission to its first line, short jobs per second, cancels, listings, recovery, and the idle
cost of all of it. If Slurm is installed, the same jobs go through a one-node Slurm in the same run.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import psutil

from bastion import Array, Client, Job, Launch, Process, Resources
from bastion.records.coding.codec import encode
from bastion.records.keys import layout, ulid
from bastion.records.requests.launch_request import LaunchRequest
from bastion.store import ObjectStore, open_store
from benchmarks.guard import guarded
from benchmarks.slurm import queued, slurm
from benchmarks.table import show
from tests.servers.slurmctld import Slurm

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
gpu = 16
cpu = 128
[project_membership]
road = ["bench"]
[project_resources.road]
gpu = 1.0
cpu = 1.0
[scheduler]
max_queued_per_user = 30000
grace_s = 5
"""
CONFIG = """
[pools.local]
provider = "local"
count = 2
resources = { gpu = 8, cpu = 64 }
"""
SAMPLES = 31
SHORT_JOBS = 1500
SHORT_JOBS_BEHIND_MANY = 500
SUBMITTERS, SEPARATE_JOBS, TASKS = 8, 1000, 1000
MANY = 10_000
IDLE_S = 10.0

BASTION = str(Path(sys.executable).with_name("bastion"))

Row = dict[str, object]


class Road:
    """A root, and the bastion that serves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = f"file://{folder}/root"
        self.store: ObjectStore = open_store(self.root, makes_root=True)
        self.store.create(layout.QUOTA, QUOTA.encode())
        self.store.create(layout.CONFIG, CONFIG.encode())
        self.client = Client(self.root, user="bench", project="road")
        self._serve: subprocess.Popen[bytes] | None = None

    def start(self) -> psutil.Process:
        """Start a bastion; return its process."""
        log = (self.folder / "serve.log").open("ab")
        argv = [BASTION, "serve", f"--root={self.root}",
                f"--machines_dir={self.folder}/machines"]  # fmt: skip
        self._serve = subprocess.Popen(argv, stdout=log, stderr=log)
        return psutil.Process(self._serve.pid)

    def stop(self) -> None:
        """Stop it cleanly."""
        if self._serve is not None:
            self._serve.terminate()
            self._serve.wait(timeout=30)

    def kill(self) -> None:
        """Stop it with kill -9."""
        if self._serve is not None:
            self._serve.kill()
            self._serve.wait()

    def submit(self, argv: list[str], number: int = 1, **asked: int) -> list[str]:
        """Put `number` launches of one job each into the inbox; return their ULIDs."""
        names = []
        for _ in range(number):
            job = Job(processes=[Process(argv, resources=Resources(**asked))])
            body = encode(LaunchRequest(launch=Launch(name="bench", jobs=(job,))))
            name = ulid.make(time.time(), os.urandom(10))
            self.store.create(layout.request("road", "bench", name, "launch"), body)
            names.append(name)
        return names

    def results(self) -> int:
        """Return how many jobs have a final record."""
        folder = self.folder / "root" / layout.results_of("road")
        return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0

    def processor_s(self) -> dict[str, float]:
        """Return CPU seconds by kind of program; the jobs of a keeper count with the keeper."""
        programs = [(f"{_kind(each)}s", each) for each in self.processes()]
        if self._serve is not None:
            programs.append(("the bastion", psutil.Process(self._serve.pid)))
        used: dict[str, float] = defaultdict(float)
        for kind, each in programs:
            used[kind] += sum(each.cpu_times()[:4])
        return used

    def processes(self) -> list[psutil.Process]:
        """Return agents and keepers."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or [])
            if str(self.folder) in line and "bastion serve" not in line:
                found.append(process)
        return found


def _kind(process: psutil.Process) -> str:
    return "agent" if "agent" in process.cmdline()[2:5] else "keeper"


@contextlib.contextmanager
def road() -> Iterator[Road]:
    """Provide a road in a temporary folder; everything it started is stopped."""
    folder = Path(tempfile.mkdtemp(prefix="bastion-road-"))
    made = Road(folder)
    try:
        made.start()
        _until(
            lambda: (
                len(made.client.pool().machines) == 2
                and all(machine.phase == "ready" for machine in made.client.pool().machines)
            )
        )
        yield made
    finally:
        made.stop()
        for process in made.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _until(done: Callable[[], object], timeout_s: float = 300.0) -> float:
    began = time.perf_counter()
    while True:
        with contextlib.suppress(Exception):
            if done():
                return time.perf_counter() - began
        if time.perf_counter() - began > timeout_s:
            raise TimeoutError("the bastion did not get there; see serve.log")
        time.sleep(0.005)


def first_lines(made: Road) -> list[float]:
    """Return the seconds from before the submission to the first log byte that a follower sees."""
    took = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        job = Job(processes=[Process(["echo", "hello"], resources=Resources(cpu=1))])
        handle = made.client.launch(Launch(name="line", jobs=(job,)))
        for _chunk in made.client.logs(handle.jobs[0], follow=True):
            break
        took.append(time.perf_counter() - began)
        time.sleep(0.3)
    return took


def short_jobs(made: Road, number: int) -> float:
    """Measure short jobs per second through the whole path."""
    before = made.results()
    began = time.perf_counter()
    made.submit(["true"], number, cpu=1)
    _until(lambda: made.results() >= before + number)
    return number / (time.perf_counter() - began)


SUBMITTER = """
import sys
from bastion import Array, Client, Job, Launch, Process, Resources
client = Client(sys.argv[1], user="bench", project="road")
job = Job(processes=[Process(["true"], resources=Resources(cpu=1))])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    client.launch(Launch(name="short", jobs=(job,)))
"""


def separate_jobs(made: Road, number: int) -> float:
    """Return jobs per second from users of the Python API, each of which awaits its answers."""
    argv = [sys.executable, "-c", SUBMITTER, made.root, str(number // SUBMITTERS)]
    pipe = subprocess.PIPE
    submitters = [
        subprocess.Popen(argv, text=True, stdin=pipe, stdout=pipe) for _ in range(SUBMITTERS)
    ]
    for each in submitters:
        assert each.stdout is not None
        each.stdout.readline()
    before, began = made.results(), time.perf_counter()
    for each in submitters:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.close()
    _until(lambda: made.results() >= before + number)
    return number / (time.perf_counter() - began)


def array_of_jobs(made: Road, number: int) -> float:
    """Return tasks per second of one array."""
    job = Job(processes=[Process(["true"], resources=Resources(cpu=1))])
    before, began = made.results(), time.perf_counter()
    made.client.launch(Launch(name="array", jobs=(job,), array=Array(f"0-{number - 1}")))
    _until(lambda: made.results() > before + number)  # plus its own
    return number / (time.perf_counter() - began)


def rated(
    made: Road, what: str, run: Callable[[Road, int], float], number: int, wanted: str
) -> Iterator[Row]:
    """Yield the rate of `number` jobs, in jobs per second, and the CPU time by program."""
    before = made.processor_s()
    yield _row(f"{what} a second", run(made, number), wanted)
    for kind, used_s in sorted(made.processor_s().items()):
        used_ms = 1e3 * (used_s - before.get(kind, 0.0))
        if used_ms > 0:
            yield _row(f"{what}: processor of {kind}, ms each", used_ms / number, "")


def slurms() -> Iterator[Row]:
    """Yield the same for Slurm, if it is installed."""
    with slurm() as beside:
        if beside is not None:
            wraps = ("sbatch", "-o", "/dev/null", "--wrap", "true")
            loop = f"for _ in $(seq {SEPARATE_JOBS // SUBMITTERS}); do {shlex.join(wraps)}; done"
            loops = ["sh", "-c", f"{loop} >/dev/null"]
            yield _row("Slurm: separate jobs a second", _slurm_rate(beside, loops, SUBMITTERS), "")
            array = ["sbatch", f"--array=0-{TASKS - 1}", *wraps[1:]]
            yield _row("Slurm: tasks of an array a second", _slurm_rate(beside, array, 1), "")


def _slurm_rate(beside: Slurm, argv: list[str], times: int) -> float:
    began = time.perf_counter()
    quiet = subprocess.DEVNULL
    started = [subprocess.Popen(argv, env=beside.env, stdout=quiet) for _ in range(times)]
    for each in started:
        each.wait()
    _until(lambda: queued(beside) == 0)
    return SEPARATE_JOBS / (time.perf_counter() - began)


def cancels(made: Road) -> list[float]:
    """Return the seconds from before the cancel until the process is gone."""
    took = []
    for sample in range(SAMPLES):
        argv = ["sleep", f"{98765 + sample}.{os.getpid()}"]
        job = Job(processes=[Process(argv, resources=Resources(cpu=1))])
        handle = made.client.launch(Launch(name="cancel", jobs=(job,)))
        _until(partial(_running, argv))
        (sleeper,) = _running(argv)
        began = time.perf_counter()
        handle.cancel()
        _until(partial(_has_ended, sleeper))
        took.append(time.perf_counter() - began)
        time.sleep(0.2)
    return took


def _has_ended(process: psutil.Process) -> bool:
    return not process.is_running()


def _running(argv: list[str]) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if process.info["cmdline"] == argv]


def idle(made: Road) -> list[Row]:
    """Return the idle cost of everything."""
    serve = psutil.Process(made._serve.pid) if made._serve else None
    assert serve is not None
    others = made.processes()
    time.sleep(3)
    watched = [serve, *others]
    before = [sum(p.cpu_times()[:2]) for p in watched]
    time.sleep(IDLE_S)
    used = [sum(p.cpu_times()[:2]) - b for p, b in zip(watched, before)]
    pair_mb = sum(p.memory_info().rss for p in others) / 2 / 1e6
    return [
        _row("idle bastion, % of a core", 100 * used[0] / IDLE_S, "2"),
        _row("idle bastion, MB", serve.memory_info().rss / 1e6, "120"),
        _row("agent and keeper of a machine, MB", pair_mb, "60"),
        _row("idle agent and keeper, % of a core", 100 * sum(used[1:]) / 2 / IDLE_S, ""),
    ]


def commands(made: Road, argv: list[str]) -> float:
    """Return the median seconds of a whole `bastion` command."""
    took = []
    for _ in range(7):
        began = time.perf_counter()
        subprocess.run(
            [BASTION, *argv, f"--root={made.root}"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        took.append(time.perf_counter() - began)
    return median(took)


def recovery(made: Road) -> float:
    """Return the seconds from the start of a bastion after kill -9 until its first commit."""
    made.kill()
    before = made.store.read(layout.ROOT)
    assert before is not None
    began = time.perf_counter()
    made.start()
    _until(lambda: made.store.read(layout.ROOT, unless=before.version))
    return time.perf_counter() - began


def main() -> None:
    """Measure, and print the table."""
    rows: list[Row] = []
    with road() as made:
        took = first_lines(made)
        rows.append(_row("submit to first line seen, p50 s", median(took), "0.2"))
        rows.append(_row("submit to first line seen, max s", max(took), ""))
        took = cancels(made)
        rows.append(_row("cancel to process gone, p50 s", median(took), "0.15"))
        rows.append(_row("short jobs a second", short_jobs(made, SHORT_JOBS), "150 or more"))
        rows += rated(made, "separate jobs", separate_jobs, SEPARATE_JOBS, "150")
        rows += rated(made, "tasks of an array", array_of_jobs, TASKS, "250")
        rows += idle(made)
        rows.append(_row("bastion --help, s", commands(made, ["--help"]), "0.15"))
        blocked = made.submit(["sleep", "100000"], 2, gpu=8)
        made.submit(["true"], MANY, gpu=8)
        queued = MANY + len(blocked)
        _until(lambda: sum(made.client.status().counts.values()) >= queued)
        rows.append(_row("bastion list of 10,000 queued, s", commands(made, ["list"]), "0.5"))
        speed = short_jobs(made, SHORT_JOBS_BEHIND_MANY)
        rows.append(_row("short jobs a second, 10,000 queued", speed, "50 or more"))
        speed = separate_jobs(made, SEPARATE_JOBS)
        rows.append(_row("separate jobs a second, 10,000 queued", speed, "125"))
        speed = array_of_jobs(made, TASKS)
        rows.append(_row("tasks of an array a second, 10,000 queued", speed, "200"))
        rows += [row | {"what": f"{row['what']}, 10,000 queued"} for row in idle(made)[:2]]
        rows.append(_row("recovery with 10,000 jobs, s", recovery(made), "1"))
    rows += slurms()
    show(rows)


def _row(what: str, measured: float, wanted: str) -> Row:
    print(f"{what}: {measured:.3f}", file=sys.stderr)
    return {"what": what, "measured": round(measured, 3), "wanted": wanted}


if __name__ == "__main__":
    guarded(main)
