"""The monitors of a leader: each is called when its input changes, or at its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bastion.job import JobRecord, Phase
from bastion.machine import Machine, MachinePhase
from bastion.monitor import Action, Options, WriteEnd, quiet_until
from bastion.records.root import Root
from bastion.service.draft.root_draft import Draft
from bastion.service.monitors import Monitors
from tests.rigs import job_records
from tests.rigs.job_records import T0

OPTIONS = Options(grace_s=5.0)
MINE = "monitor of train-1"


class Bench:
    """Monitors, and the names of those that were called."""

    def __init__(self) -> None:
        self.monitors = Monitors(self._guarded)
        self.called: list[str] = []

    def _guarded(self, name: str, work: Callable[..., object], *arguments: object) -> None:
        self.called.append(name)
        work(*arguments)

    def watched(self, root: Root, *, after_s: float = 1.0) -> tuple[bool, JobRecord]:
        """Return whether the job's monitor is called for a draft of `root`, and the job then."""
        self.called = []
        draft = Draft(root, T0 + after_s)
        self.monitors.watch(draft, OPTIONS)
        return MINE in self.called, draft.jobs["train-1"]

    def acted(self, root: Root) -> tuple[bool, list[Action]]:
        """Return whether it is called for the committed `root`, and the writes that it requests."""
        self.called = []
        asked: list[Action] = []
        self.monitors.act(root, root.jobs, lambda _, action: asked.append(action))
        return MINE in self.called, asked


def root_of(job: JobRecord, *lives: int) -> Root:
    """Return a root with that job, and a machine of each of these lives."""
    ready = MachinePhase.READY
    machines = [
        Machine(name=f"m{n}-0", pool="p", phase=ready, life=at) for n, at in enumerate(lives)
    ]
    named = {each.name: each for each in machines}
    return Root(epoch=1, seq=1, now=T0, write_id="w", jobs={job.id: job}, machines=named)


def test_a_job_that_nothing_happened_to_is_not_looked_at_again() -> None:
    """Turns that change other jobs do not call it until its own record changes."""
    bench, job = Bench(), job_records.running()
    root = root_of(job, 1)
    assert bench.watched(root)[0]
    assert not bench.watched(root, after_s=2)[0]
    assert bench.watched(replace(root, jobs={job.id: replace(job, report={"loss": 1.0})}))[0]


def test_a_machine_that_moves_is_seen_at_once() -> None:
    """A new life of its machine, or its loss, stops a job in the very next turn."""
    for lives in ((2,), ()):
        bench, job = Bench(), job_records.running()
        assert bench.watched(root_of(job, 1))[1].phase is Phase.RUNNING
        assert bench.watched(root_of(job, *lives))[1].phase is Phase.STOPPING


def test_a_time_limit_is_kept_by_a_job_that_is_quiet() -> None:
    """The bastion stops what its keeper did not, although nothing was heard of it."""
    bench, job = Bench(), job_records.running()
    root = root_of(job, 1)
    until_s = quiet_until(job, OPTIONS) - T0
    assert bench.watched(root)[1].phase is Phase.RUNNING
    root = replace(root, now=T0 + until_s - 2)  # commits have followed each other until now
    assert not bench.watched(root, after_s=until_s - 1)[0]
    assert bench.watched(root, after_s=until_s + 1)[1].phase is Phase.STOPPING


def test_what_a_discarded_turn_did_is_done_again() -> None:
    """Instructions of a turn that was not committed are allocated by the next one."""
    bench, root = Bench(), root_of(job_records.starting(), 1)
    first = bench.watched(root)[1]
    assert first.attempt is not None and first.attempt.hosts[0][0].instructed == 1
    called, again = bench.watched(root)
    assert called and again == first


def test_a_failed_launch_is_looked_at_in_every_turn() -> None:
    """A job whose sibling has ended the launch is stopped, even if nothing of it changes."""
    bench, job = Bench(), replace(job_records.running(), launch="pair")
    root = root_of(job, 1)
    assert bench.watched(root)[1].phase is Phase.RUNNING
    other = replace(
        job_records.ended(job_records.running(launch_scope=True), job_records.exited(1)),
        id="train-2",
        launch="pair",
    )
    assert bench.watched(replace(root, jobs={job.id: job, other.id: other}))[1].phase in (
        Phase.STOPPING,
        Phase.DONE,
    )


def test_writes_are_asked_for_until_none_is_due() -> None:
    """A write is requested in every turn; a job that needs none is not considered again."""
    bench, job = Bench(), job_records.running()
    quiet = root_of(job, 1)
    assert bench.acted(quiet) == (True, [])
    assert bench.acted(quiet) == (False, [])
    gone = replace(quiet, machines={})
    for _ in range(2):
        called, asked = bench.acted(gone)
        assert called and [type(each) for each in asked] == [WriteEnd]
