"""
Chaos: two bastions, eight agents and hundreds of jobs, struck at random by kill -9 and SIGSTOP.

    python -m tests.end_to_end.chaos --minutes 10 --root file
    python -m tests.end_to_end.chaos --minutes 10 --root gs --seed 7
    python -m tests.end_to_end.chaos --minutes 10 --hard

`file` is a folder; `gs` is the test server behind a network that loses, cuts and repeats requests.
With `--hard` (a folder, and root) the bucket is moved away and back, a disk of two machines filled,
descriptors taken, and clocks stepped, beside all that.

The seed decides what is submitted, and which process is struck when; the outcome differs each time,
because real processes do. Exit code 1 when anything is wrong at the end; all files are then kept.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from bastion import BastionError, Client, Job, Launch, Process, Resources
from bastion.agent.machine.stray_processes import mark_of
from bastion.records.keys import layout
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import Place, folder_root, gcs_root
from tests.end_to_end.strikes import Bastions, Strikes, Surroundings
from tests.end_to_end.verdict import SCRIPT, Verdict, told
from tests.servers.fault_proxy import Fault, FaultProxy

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 64
[project_membership]
red = ["alice"]
blue = ["alice"]
[project_resources.red]
h100 = 0.5
[project_resources.blue]
h100 = 0.5
[scheduler]
min_runtime_s = 2
grace_s = 2
"""
CONFIG = """
[pools.local]
provider = "local"
count = 8
resources = { h100 = 8, cpu = 32 }
"""
HARD_CONFIG = """
[pools.local]
provider = "local"
count = 6
resources = { h100 = 8, cpu = 32 }

[pools.small]
provider = "local"
count = 2
resources = { h100 = 8, cpu = 32 }
"""
DISK_MIB = 96
"""Size of the disk of the machines of the small pool."""
STEPPED = Path(__file__).with_name("stepped_clock.c")
"""Source of the library that steps the wall clock of a program."""
BATCH = 10
"""Jobs that are submitted together."""
ASKED_FOR = 0.7
"""Share of the run after which no job is submitted."""
LINES_PER_MINUTE = 10
"""Lines of the longest job for each minute of the run, so that every run fills the pool alike."""
LEFT_S = 300.0
"""Limit for the rest to end after the last strike, on a busy machine."""
FAULTS = 0.02
"""Share of exchanges with the server that have a fault; one in a hundred of these hangs."""


@dataclass(kw_only=True)
class Report:
    """The result of a run."""

    numbers: dict[str, object] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


class Asking:
    """A user who submits jobs for a while, and repeats each request until it is answered."""

    def __init__(
        self, client: Client, chance: random.Random, witness: Path, *, jobs: int, for_s: float
    ) -> None:
        self._client = client
        self._chance = chance
        self._witness = witness
        self._pauses = [for_s * BATCH / jobs] * (jobs // BATCH)
        self._longest = round(LINES_PER_MINUTE * for_s / ASKED_FOR / 60.0)
        self._is_stopped = False
        self.lines: dict[str, int] = {}
        """Of each submitted job."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until everything is submitted."""
        self._thread.join(LEFT_S)
        assert not self._thread.is_alive(), "a submission was never answered"

    def _run(self) -> None:
        for number, pause_s in enumerate(self._pauses):
            began = time.monotonic()
            lines = [self._chance.randint(1, self._longest) for _ in range(BATCH)]
            wanted = Launch(
                name=f"batch{number}",
                project=self._chance.choice(("red", "blue", "blue")),
                jobs=[self._job(n, count) for n, count in enumerate(lines)],
                together=False,
            )
            self.lines |= dict(zip(self._submitted(wanted), lines, strict=True))
            time.sleep(max(0.0, began + pause_s - time.monotonic()))

    def _job(self, number: int, lines: int) -> Job:
        script = SCRIPT.format(witness=self._witness, lines=lines)
        units = Resources(h100=self._chance.choice((1, 1, 2, 4)))
        process = Process(script, shell=True, resources=units)
        return Job(name=f"j{number}", processes=[process], retries=2, retry_backoff=1.0)

    def _submitted(self, wanted: Launch) -> tuple[str, ...]:
        until = time.monotonic() + LEFT_S
        while True:
            try:
                return self._client.launch(wanted, idempotency_key=wanted.name, timeout_s=20).jobs
            except BastionError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)


def run(
    folder: Path,
    place: Place,
    *,
    minutes: float,
    jobs: int,
    seed: int,
    around: Surroundings | None = None,
) -> Report:
    """Strike for the given minutes, let everything end, and compare."""
    text = CONFIG if around is None else HARD_CONFIG
    chance = random.Random(seed)
    witness = folder / "witness"
    witness.mkdir()
    place.store.create(layout.QUOTA, QUOTA.encode())
    config = place.store.create(layout.CONFIG, text.encode())
    programs = Programs(folder, place)
    env = {} if around is None or around.clock is None else stepped(around.clock)
    bastions = Bastions(programs, ("north", "south"), chance, env)
    strikes = Strikes(programs, chance, around=around)
    report = Report()
    try:
        bastions.look()
        until(lambda: len(programs.processes("bastion.agent.keeper")) == 8, "eight machines")
        client = Client(place.url, user="alice", store=place.store)
        began, for_s = time.monotonic(), 60.0 * minutes
        asking = Asking(
            client, random.Random(seed + 1), witness, jobs=jobs, for_s=ASKED_FOR * for_s
        )
        while time.monotonic() < began + for_s:
            strikes.look()
            bastions.look()
            time.sleep(0.05)
        strikes.end()
        ended_at = time.monotonic()
        asking.wait()
        _until(lambda: _is_idle(place), bastions, "every job ends", report)
        report.numbers["seconds to the last end"] = round(time.monotonic() - ended_at, 1)
        closed = re.sub(r"count = \d", "max_machines = 0", text).encode()
        place.store.swap(layout.CONFIG, closed, if_version=config.version)
        _until(lambda: not _machines(place), bastions, "every machine is deleted", report)
        _judge(report, programs, bastions, strikes, Verdict(place, asking.lines, witness))
    finally:
        strikes.end()
        programs.stop_everything()
    return report


def _until(done: Callable[[], bool], bastions: Bastions, what: str, report: Report) -> None:
    """Wait until `done()`, while the supervisor restarts dead bastions."""
    end = time.monotonic() + LEFT_S
    while not done():
        bastions.look()
        time.sleep(0.5)
        if time.monotonic() > end:
            report.wrong.append(f"not within {LEFT_S:g} s: {what}")
            return


def _is_idle(place: Place) -> bool:
    root = place.root()
    return root is not None and not root.jobs and not place.keys(layout.INBOX)


def _machines(place: Place) -> tuple[str, ...]:
    root = place.root()
    return tuple(root.machines) if root is not None else ()


def _judge(
    report: Report, programs: Programs, bastions: Bastions, strikes: Strikes, verdict: Verdict
) -> None:
    codes = bastions.stop()
    if codes != [0] * len(codes):
        report.wrong.append(f"bastions that were told to stop exited with {codes}")
    left = {process.pid for process in programs.processes()}
    left |= {pid for pid in psutil.pids() if mark_of(pid).startswith(str(programs.folder))}
    report.wrong += [f"process {pid} still runs" for pid in sorted(left)]
    report.wrong += [f"machine {name} is left" for name in _machines(programs.place)]
    internal = programs.served.count("internal error")
    if internal:
        report.wrong.append(f"{internal} internal errors of bastions")
    report.wrong += bastions.odd_exits + strikes.wrong + verdict.wrong
    root = programs.place.root()
    assert root is not None
    report.numbers |= verdict.numbers
    report.numbers |= {"strikes": dict(sorted(strikes.dealt.items())), "epochs": root.epoch}
    report.numbers["commits"] = root.seq


def stepped(clock: Path) -> dict[str, str]:
    """Return the variables that give a bastion and its agents the wall clock of `clock`."""
    wanted = {"LD_PRELOAD": str(clock.with_name("stepped.so")), "STEPPED_CLOCK": str(clock)}
    return wanted | {f"AGENT_{name}": text for name, text in wanted.items()}


@contextmanager
def poor_ground(folder: Path) -> Iterator[Surroundings]:
    """Make a root that can be moved, a small disk for two machines, and a settable clock."""
    disk = folder / "machines" / "small"
    disk.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(disk)]
    subprocess.run(words, check=True)
    clock = folder / "clock" if shutil.which("cc") else None
    if clock is not None:
        clock.write_text("0\n")
        made = str(clock.with_name("stepped.so"))
        subprocess.run(["cc", "-shared", "-fPIC", "-o", made, str(STEPPED)], check=True)
    try:
        yield Surroundings(root=folder / "root", disk=disk, clock=clock)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


@contextmanager
def bad_network(folder: Path, seed: int) -> Iterator[Place]:
    """Make a bucket of Google's behind a network with faults; `verdict` has a good one."""
    chance = random.Random(seed)
    faults = [each for each in Fault if each not in (Fault.NONE, Fault.HANG)]

    def fault() -> Fault:
        if chance.random() >= FAULTS:
            return Fault.NONE
        return Fault.HANG if chance.random() < 0.01 else chance.choice(faults)

    with gcs_root(folder) as place:
        port = int(place.env["STORAGE_EMULATOR_HOST"].rpartition(":")[2])
        with FaultProxy(port, fault) as proxy:
            yield replace(place, env={"STORAGE_EMULATOR_HOST": proxy.url})


ROOTS: Mapping[str, Callable[[Path, int], AbstractContextManager[Place]]] = {
    "file": lambda folder, seed: folder_root(folder),
    "gs": bad_network,
}


def main() -> int:
    """Run the command line; return 1 when anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.end_to_end.chaos")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--root", choices=ROOTS, default="file")
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hard", action="store_true")
    said = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    with ExitStack() as stack:
        place = stack.enter_context(ROOTS[said.root](folder, said.seed))
        around = stack.enter_context(poor_ground(folder)) if said.hard else None
        report = run(
            folder, place, minutes=said.minutes, jobs=said.jobs, seed=said.seed, around=around
        )
    sys.stdout.write(f"{told(report.numbers, report.wrong)}\neverything is kept in {folder}\n")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
