"""
The play: only the submissions are scripted. The bastion does the rest.

ada's project owns half of sixteen devices and uses all of them: one job within its share, one that
borrows. Then lin's project asks for its own half. The borrower gets its notice, saves its state and
stops. lin's job runs. The borrower starts again and resumes. A fourth job waits in the meantime,
with its reason, and fails on purpose. At the end all results are checked.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from bastion.client import Client, JobView, LaunchHandle, Wanted
from bastion.clock import SystemClock
from bastion.errors import BastionError, NotFoundError
from bastion.records.keys import layout
from bastion.spec import Job, Launch, Process, Resources
from bastion.system import require_linux
from bundler.code import LocalDir
from launch import exits
from launch.demo.encore import Encore, Piece
from launch.demo.screen import Screen
from launch.demo.stage import Stage, StageError
from launch.screen.render import Output

WORK = Path(__file__).parent / "work"
LIMIT_S = 80.0
"""The demo takes about 25 % of it; beyond it something is wrong."""
BOUND_S = 18.0
"""The time in which a job within its share must run: min_runtime_s + max_grace_s of the quota file,
and 5 s for a cycle and a start on a busy machine."""
MEANT_CODE = 3
"""The exit code of the last job, which shows a failure."""


class Play:
    """
    The demo while it runs.

    Args:
        stage: The bucket and the bastion.
        screen: The output.
    """

    def __init__(self, stage: Stage, screen: Screen) -> None:
        self._screen = screen
        self._ada = Client(stage.url, user="ada", project="vision")
        self._lin = Client(stage.url, user="lin", project="language")
        self._handles: dict[str, LaunchHandle] = {}
        self._clock = self._ada.clock
        self._until = self._clock.monotonic() + LIMIT_S
        self._lines = 0
        self._stage = stage
        self._shown_at = 0.0
        self.jobs: dict[str, JobView] = {}

    def run(self) -> None:
        """
        Run the whole demo.

        Raises:
            StageError: Something took too long.
            BastionError: Something went wrong.
        """
        say = self._screen.tell
        say("two machines of eight devices; vision and language own half of them each")
        self._wait_for("two machines", self._has_machines)
        say("ada (vision) submits two jobs of 8: one within its share, one that borrows")
        self._submit(self._ada, "base", devices=8, steps=120)
        self._submit(self._ada, "extra", devices=8, steps=90)
        self._wait_for("extra to save its state", lambda: "saved" in self._log("extra"))
        say("lin (language) asks for its own half, and ada for 4 more")
        self._submit(self._lin, "urgent", devices=8, steps=30)
        self._submit(self._ada, "fourth", devices=4, steps=10, exit_code=MEANT_CODE)
        (fourth,) = self._handles["fourth"].jobs
        self._wait_for("a reason for fourth", lambda: bool(self._ada.why(fourth).reason))
        say(f"$ bastion why fourth: {self._ada.why(fourth).text}")
        self._wait_for("urgent to run", lambda: self._look()["urgent"].state != "queued")
        self._wait_for("all to end", lambda: all(job.has_ended for job in self._look().values()))

    def problems(self) -> list[str]:
        """Return the results that differ from the expected ones."""
        jobs, log = self.jobs, self._log("extra")
        checks = (
            (jobs["base"].preemptions == 0, "base was preempted although it was within its share"),
            (jobs["base"].state == "succeeded", "base did not succeed"),
            (jobs["extra"].preemptions >= 1, "extra was not preempted"),
            ("told to stop: saved step" in log, "extra got no notice before it was stopped"),
            ("resumed after step" in log, "extra did not resume from its checkpoint"),
            (jobs["extra"].state == "succeeded", "extra did not succeed"),
            (jobs["urgent"].state == "succeeded", "urgent did not succeed"),
            (_queued_s(jobs["urgent"]) < BOUND_S, f"urgent waited longer than {BOUND_S:g}s"),
            (jobs["fourth"].code == MEANT_CODE, "fourth did not end with its own code"),
        )
        return [problem for is_well, problem in checks if not is_well]

    def epilogue(self, stage: Stage) -> None:
        """Print exit codes, preemptions, where everything is stored, and the next commands."""
        say = self._screen.say
        for job in self.jobs.values():
            code = exits.of_job(job)
            say(f"{job.name:<8} {job.state:<10} bastion wait exits {code:<3} {job.text}")
        extra = self.jobs["extra"].id
        say(f"everything is in {stage.bucket}, readable with cat:")
        for place, meaning in (
            (layout.result("vision", extra), "the result of extra and its attempts"),
            (layout.job_logs("vision", extra), "the output of extra, by attempt"),
            (layout.ROOT, "the state of the bastion"),
            (layout.QUOTA, "the quota file"),
        ):
            say(f"  {place:<52} {meaning}")
        say("next commands (they work while the bastion is down):")
        # `make demo` installs into its own folder, which is not in PATH.
        program = "bastion" if shutil.which("bastion") else f"{Path(sys.executable).parent}/bastion"
        for verb in ("list --all", f"events {extra}", f"logs {extra} --attempt=all"):
            say(f"  {program} {verb} --root={stage.url}")
        say("to see everything on a web page:")
        say(f"  {program} web --open --root={stage.url}")

    def go_on(self) -> None:
        """
        Submit jobs of both projects endlessly, for people who look at the page.

        Raises:
            BastionError: Something went wrong.
        """
        encore, began = Encore(), self._clock.monotonic()
        active: list[tuple[LaunchHandle, Piece]] = []
        while True:
            active = [each for each in active if not each[0].status().jobs[0].has_ended]
            passed_s = self._clock.monotonic() - began
            for piece in encore.due(passed_s, [piece for _, piece in active]):
                client = self._ada if piece.user == self._ada.user else self._lin
                words = [f"--steps={piece.runs_s}", "--step_seconds=1"]
                words += [f"--exit_code={piece.exit_code}"]
                active.append((client.launch(_launch(piece.name, piece.devices, *words)), piece))
            self._show_devices()
            self._clock.sleep(1.0)

    def _show_devices(self) -> None:
        """Update the simulated use of the devices, about once per second."""
        now = self._clock.wall()
        if now - self._shown_at < 1.0:
            return
        self._shown_at = now
        with suppress(NotFoundError):  # before the first view
            self._stage.devices.show(self._ada.pool().machines, now)

    def _submit(
        self, client: Client, name: str, *, devices: int, steps: int, exit_code: int = 0
    ) -> None:
        words = [f"--steps={steps}", f"--exit_code={exit_code}"]
        self._handles[name] = client.launch(_launch(name, devices, *words))
        self._screen.say(
            f"$ bastion launch --user_id={client.user} --name={name} --resources=h100={devices}"
            f" --code=. -- python3 train.py --steps={steps}"
        )

    def _look(self) -> dict[str, JobView]:
        """Return the current state of every job; print changes and the output of `extra`."""
        for name, handle in self._handles.items():
            self.jobs[name] = handle.status().jobs[0]
        self._screen.jobs(tuple(self.jobs.values()))
        if "extra" in self._handles:
            lines = self._log("extra").splitlines()
            for line in lines[self._lines :]:
                self._screen.say(f"{'':<8} extra prints: {line}", color="dim")
            self._lines = max(self._lines, len(lines))
        return self.jobs

    def _log(self, name: str) -> str:
        job = self._handles[name].jobs[0]
        try:
            chunks = self._ada.logs(job, Wanted(attempt=0), project="vision")
            return b"".join(chunk.data for chunk in chunks).decode()
        except NotFoundError:
            return ""

    def _has_machines(self) -> bool:
        try:
            ready = [m for m in self._ada.pool().machines if m.phase == "ready"]
        except NotFoundError:
            return False
        return len(ready) == 2

    def _wait_for(self, what: str, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self._clock.monotonic() > self._until:
                raise StageError(f"waited too long for {what}")
            if self._handles:
                self._look()
            self._show_devices()
            self._clock.sleep(0.1)


def _launch(name: str, devices: int, *words: str) -> Launch:
    command = [sys.executable, "-u", "train.py", *words]
    process = Process(command, resources=Resources(h100=devices))
    return Launch(name=name, jobs=(Job(name=name, processes=(process,)),), code=LocalDir(str(WORK)))


def _queued_s(job: JobView) -> float:
    return (job.started_at or float("inf")) - job.submitted_at


def play(folder: str, out: Output, *, web: bool = False) -> int:
    """
    Run the demo in `folder` (empty: a new temporary one); return 0 if all results are right.

    With `web`, a page shows it, and new jobs are submitted until Ctrl-C.

    Raises:
        BastionError: It could not run.
    """
    require_linux("the demo")
    place = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="bastion-demo-"))
    clock = SystemClock()
    stage = Stage(place, clock)
    stage.furnish()
    screen = Screen(out, clock)
    with ExitStack() as ending:
        ending.enter_context(stage.bastion())
        address = ending.enter_context(stage.page()) if web else ""
        ending.callback(_hear_no_more)
        if address:
            for number in (signal.SIGTERM, signal.SIGHUP):  # same as Ctrl-C: shut down cleanly
                signal.signal(number, signal.default_int_handler)
            screen.tell(f"the page is {address}")
            webbrowser.open(address)
        with screen.open():
            running, problems = _played(stage, screen)
        running.epilogue(stage)
        for problem in problems:
            screen.say(f"wrong: {problem}", color="red")
        if not problems:
            screen.tell("a share was guaranteed, lent, reclaimed and lent again; nothing was lost")
        if address:
            screen.tell("both projects keep submitting jobs; the use of the devices is simulated")
            screen.tell(f"the page is {address}; Ctrl-C stops it, the jobs and the bastion")
            with suppress(KeyboardInterrupt):
                running.go_on()
            screen.tell("stopping the jobs, the bastion and the page")
    return exits.FAILED if problems else exits.OK


def _hear_no_more() -> None:
    """Ignore a second Ctrl-C during the shutdown: it would leave processes behind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _played(stage: Stage, screen: Screen) -> tuple[Play, list[str]]:
    """Run the play; return it and the wrong results."""
    running = Play(stage, screen)
    try:
        running.run()
    except BastionError as error:
        raise StageError(error.message, hint=f"its log is {stage.log}") from error
    problems = running.problems()
    screen.tell("all jobs ended")
    return running, problems
