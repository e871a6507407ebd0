"""Bells and requests applied to a draft. A bad one affects nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NoReturn

from bastion.errors import BastionError, ConflictError, StoreError
from bastion.lane import Lane
from bastion.machine import Machine, Pool
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.register import create_same
from bastion.records.reports.facts import Bell, Heartbeat, Hello
from bastion.records.requests.answer import Answer
from bastion.records.requests.inbox import Waiting
from bastion.records.requests.job_request import FollowRequest, JobsRequest, UpdateRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.scheduler.machine_report import MachineReport
from bastion.scheduler.plan import Plan, Refuse, Wait
from bastion.scheduler.reasons.reason import NeverFits, text
from bastion.scheduler.reasons.words import listed
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.bells import apply_bell
from bastion.service.intake.failing import Unwritten
from bastion.service.intake.inbox import ReadBell, ReadRequest
from bastion.service.intake.proofs import NEW_LIVES
from bastion.service.intake.requests import (
    Rules,
    answer_key,
    apply_request,
    general_problems,
    refuse,
    spec_record,
)
from bastion.service.journal import Journal
from bastion.spec import task_id
from bastion.store import ObjectStore

SPECS_S = 30.0
"""A turn whose specs take longer to write is discarded; the next one continues without these."""
_WRITE_FOR = "write for "
"""Prefix of the lane's key for an object that is written again, before the key of its request."""
_UNSAID = "cannot start now, and a bug of the scheduler hides why: bastion status shows it"
"""Why a job that may not wait is refused by a plan without reasons."""
_TAKEN = "there was a launch of this id; submit again"


class Intake:
    """
    Applies requests and bells to a draft; a bad object affects nothing else.

    Args:
        lane: Writes specs concurrently. Other work that finishes on it in the meantime, such as a
            read that hung, is dropped and must be submitted again.
    """

    def __init__(self, store: ObjectStore, lane: Lane, journal: Journal) -> None:
        self._store = store
        self._lane = lane
        self._journal = journal
        self._unwritten = Unwritten()
        self._again: dict[str, Callable[[], object]] = {}
        """Writes that left-out requests of this turn rely on, to be repeated outside the turn."""

    def apply_bell(self, draft: Draft, read_bell: ReadBell, pools: Mapping[str, Pool]) -> None:
        """Apply a bell. A bad one is only logged: the registers hold the same facts."""
        ringing = read_bell.ringing
        if read_bell.problem:
            self._journal.note(f"bell set aside: {read_bell.problem}")
        if read_bell.bell is None:
            return
        if ringing.machine not in draft.machines:
            self._tell_stranger(ringing.machine, read_bell.bell)
        try:
            apply_bell(draft, ringing, read_bell.bell, proof=read_bell.proof, pools=pools)
        except BastionError as error:
            self._journal.problem(ringing.entry.key, error)
        except Exception as error:  # noqa: BLE001 - one bad bell must not stop the rest
            self._journal.failure(ringing.entry.key, error)
        machine, is_proven = draft.machines.get(ringing.machine), read_bell.proof.is_life
        if machine is not None and ringing.life > machine.life and not is_proven:
            self._tell_unproven(machine, ringing.life, read_bell.bell)

    def _tell_stranger(self, machine: str, bell: Bell) -> None:
        """Report an agent on a machine that no pool created; ignore late facts of others."""
        if any(isinstance(fact, Hello | Heartbeat) for fact in bell.facts):
            problem = BastionError(
                "its agent reports, but no pool made this machine, so it gets no jobs",
                hint="machines come from the pools of config/bastion.toml; the ssh provider"
                " takes hosts of your own",
            )
            self._journal.problem(f"machine {machine}", problem)

    def _tell_unproven(self, machine: Machine, life: int, bell: Bell) -> None:
        """Report that a machine is not believed: else its jobs would wait without a reason."""
        if any(isinstance(fact, Hello | Heartbeat) for fact in bell.facts):
            self._journal.problem(f"machine {machine.name}", _unproven(machine, life))

    def apply_request(self, draft: Draft, arrived: ReadRequest, rules: Rules) -> bool:
        """
        Apply a request and answer it; return False if it must wait in the inbox.

        `write_specs` must write the spec of an accepted launch before the commit.
        """
        waiting = arrived.waiting
        if arrived.is_answered or answer_key(waiting) in draft.answers:
            return True
        problems = list(arrived.problems) or general_problems(waiting, rules)
        if problems or arrived.body is None:
            refuse(draft, waiting, problems)
            return True
        if waiting.entry.key in self._unwritten:
            return self._write_again(draft, arrived)
        try:
            if not apply_request(
                draft,
                waiting,
                arrived.body,
                rules,
                ended=arrived.ended,
                awaited=arrived.targets,
                taken=arrived.taken,
            ):
                return False
        except BastionError as error:
            refuse(draft, waiting, [error.message])
        except Exception as error:  # noqa: BLE001 - one bad request must not stop the rest
            self._journal.failure(waiting.entry.key, error)
            refuse(draft, waiting, [f"internal error: {error!r}; the bastion's log has more"])
        return True

    def _write_again(self, draft: Draft, arrived: ReadRequest) -> bool:
        """Write a request's object again outside the turn; refuse the request after a long time."""
        waiting, body = arrived.waiting, arrived.body
        request = waiting.entry.key
        if self._unwritten.is_given_up(request):
            refuse(draft, waiting, [self._unwritten.problem(request)])
            return True
        key, data = self._unwritten.small(request)
        if isinstance(body, LaunchRequest):
            key, data = _spec(waiting, body)
        self._again[f"{_WRITE_FOR}{request}"] = partial(_write, self._store, key, data)
        return False

    def write_again(self, lane: Lane) -> None:
        """Write on `lane` the objects of requests that this turn has left out."""
        for key, work in self._again.items():
            lane.submit(key, work)
        self._again.clear()

    def written(self, key: str, error: Exception | None, *, at: float) -> None:
        """Record the outcome of work on the lane; `at` is the time of the last commit."""
        request = key.removeprefix(_WRITE_FOR)
        if request == key:
            return
        if error is None or isinstance(error, ConflictError):
            self._unwritten.forget(request)  # if its launch's id is taken, the next turn says so
        else:
            self._unwritten.add(request, error, at=at)

    def forget(self, absorbed: Iterable[ReadRequest]) -> None:
        """Drop the absorbed requests."""
        for arrived in absorbed:
            self._unwritten.forget(arrived.waiting.entry.key)

    def judge(self, draft: Draft, absorbed: Iterable[ReadRequest], plan: Plan) -> bool:
        """
        Refuse the launches of this turn that can never run, or must not wait, according to `plan`.

        Return whether there were any. If so, `plan` is void, because it counted on them. A problem
        uses a job's name in the launch, because its id will never exist.
        """
        # All are judged before one is withdrawn: two requests with one key bring the same jobs.
        brought = [
            (arrived, answer)
            for arrived in absorbed
            if (answer := draft.brought(answer_key(arrived.waiting))) is not None
        ]
        judged = [(arrived, *self._judged(draft, answer, plan)) for arrived, answer in brought]
        for arrived, told, machines in judged:
            if told:
                self._withdraw(draft, arrived, told, machines=machines)
        return any(told for _, told, _ in judged)

    def _judged(
        self, draft: Draft, answer: Answer, plan: Plan
    ) -> tuple[list[str], tuple[MachineReport, ...]]:
        """Return why the launch with this answer is refused, and on which machines it was tried."""
        problems: dict[str, list[str]] = {}
        machines: list[MachineReport] = []
        for job_id in answer.jobs:
            array = draft.arrays.get(job_id)
            # Of an array the scheduler sees waiting tasks; users may cancel or hold some now.
            waiting = (array.ready or array.tasks).first if array is not None else 0
            judged = job_id if array is None else task_id(job_id, waiting)
            verdict = plan.verdicts.decided.get(judged)
            machines += verdict.machines if isinstance(verdict, Refuse) else ()
            job = draft.jobs[job_id] if array is None else array.each
            match verdict:
                case Refuse(reason=reason) | Wait(reason=NeverFits() as reason):
                    problems.setdefault(text(reason, draft.now), []).append(job.name)
                case None if job.fail_when_busy:
                    problems.setdefault(_UNSAID, []).append(job.name)
        told = [f"{listed(tuple(jobs))}: {why}" for why, jobs in problems.items()]
        return told, tuple(machines)

    def _withdraw(
        self,
        draft: Draft,
        arrived: ReadRequest,
        problems: list[str],
        *,
        machines: tuple[MachineReport, ...] = (),
    ) -> None:
        draft.withdraw(draft.answers[answer_key(arrived.waiting)].jobs)
        refuse(draft, arrived.waiting, problems, machines=machines)

    def write_specs(self, draft: Draft, absorbed: Iterable[ReadRequest]) -> bool:
        """
        Write the `spec.json` of every launch of this turn, and all else that the commit relies on.

        This happens before any commit names the launch. Return whether a launch was refused because
        another one has its id.

        Raises:
            StoreError: Some may not be written; this turn must not be committed. The next one
                continues without the requests that need them.
        """
        launches, refused = self._submit_specs(draft, absorbed)
        for key, (_, data) in draft.first.items():
            self._lane.submit(key, partial(_write, self._store, key, data))
        if not launches and not draft.first:
            return refused
        self._lane.settle(SPECS_S, keys={*launches, *draft.first})
        written = {done.key: done.error for done in self._lane.collect()}
        failed: dict[str, Exception] = {}
        for key in (*launches, *draft.first):
            late = StoreError(f"{key}: not written after {SPECS_S:g} s")
            error = written.get(key, late)
            if key in launches and isinstance(error, ConflictError):
                for arrived in launches[key]:
                    self._withdraw(draft, arrived, [_TAKEN])
                refused = True
            elif error is not None:
                failed[key] = error
        if failed:
            self._leave_out(draft, failed, launches)
        return refused

    def _leave_out(
        self,
        draft: Draft,
        failed: Mapping[str, Exception],
        launches: Mapping[str, list[ReadRequest]],
    ) -> NoReturn:
        """Make the next turns continue without the requests whose objects have `failed`."""
        for key, error in failed.items():
            if not isinstance(error, BastionError):
                self._journal.failure(key, error)
            for arrived in launches.get(key, ()):
                self._unwritten.add(arrived.waiting.entry.key, error, at=draft.root.now)
            if key in draft.first:
                request, data = draft.first[key]
                self._unwritten.add(request, error, at=draft.root.now, small=(key, data))
        more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise StoreError(f"{next(iter(failed.values()))}{more}")

    def _submit_specs(
        self, draft: Draft, absorbed: Iterable[ReadRequest]
    ) -> tuple[dict[str, list[ReadRequest]], bool]:
        """
        Write each spec of this turn once; return the launches of each, by key.

        Two requests with one idempotency key bring the same jobs, and their spec is that of the
        first. If a second request with this id brings other jobs, it is refused: return whether
        there was one.
        """
        launches: dict[str, list[ReadRequest]] = {}
        refused = False
        for arrived in absorbed:
            brought = draft.brought(answer_key(arrived.waiting))
            if not isinstance(arrived.body, LaunchRequest) or brought is None:
                continue
            key, data = _spec(arrived.waiting, arrived.body)
            if key not in launches:
                launches[key] = [arrived]
                self._lane.submit(key, partial(_write, self._store, key, data))
            elif draft.answers[answer_key(launches[key][0].waiting)].jobs == brought.jobs:
                launches[key].append(arrived)
            else:
                self._withdraw(draft, arrived, [_TAKEN])
                refused = True
        return launches, refused


def _spec(waiting: Waiting, body: LaunchRequest) -> tuple[str, bytes]:
    """Return the key and the bytes of a launch's `spec.json`."""
    record = spec_record(waiting, body)
    return layout.spec(record.project, record.id), encode(record)


def _write(store: ObjectStore, key: str, data: bytes) -> None:
    """Create an object that a commit relies on; the error names it."""
    try:
        create_same(store, key, data)
    except StoreError as error:
        if key in error.message:
            raise
        raise StoreError(f"{key}: {error.message}", hint=error.hint) from error


def _unproven(machine: Machine, life: int) -> BastionError:
    """Return why a life later than the last known one is not believed: unseen or not looked up."""
    if life > machine.life + NEW_LIVES:
        return BastionError(
            f"its agent reports life {life}, so the bastion ignores it: the last known life is"
            f" {machine.life}, and a new one can be at most {NEW_LIVES} higher",
            hint="another program reports in its name, or its counters are damaged; delete it at"
            " its provider",
        )
    return BastionError(
        f"its agent reports life {life}, of which {layout.life(machine.name, life)} is gone or"
        " damaged, so the bastion ignores it",
        hint="the bucket is older than the machine, or that record was deleted; end the machine's"
        " keeper or reboot it, which starts a new life, or delete it at its provider",
    )


def apply_portion(
    requests: Sequence[ReadRequest],
    apply: Callable[[ReadRequest], bool],
    *,
    most_jobs: int,
    named: Callable[[str], int] = lambda _: 1,
) -> list[ReadRequest]:
    """
    Apply the requests of one turn, a share for every user, and return those that need not wait.

    `apply` is called for all of them in order if they name at most `most_jobs` jobs. Otherwise it
    is called for those of each user until one need not wait, then again for each user, until those
    that need not wait name that many jobs. The requests of one user keep their order.

    Every user is served in the first round, so no flood from others can delay a user. Applying,
    deciding and committing a request takes time for each job that it names: a turn that took too
    many would publish nothing in the meantime, and its lease might run out. `named` counts the jobs
    of a target: the id of a launch means all of its jobs.
    """
    if sum(_jobs_of(each, named) for each in requests) <= most_jobs:
        return [each for each in requests if apply(each)]
    waiting: dict[str, deque[ReadRequest]] = {}
    for each in requests:
        name = each.waiting.name
        waiting.setdefault(f"{name.project}/{name.user}", deque()).append(each)
    applied: list[ReadRequest] = []
    jobs = 0
    while waiting and jobs < most_jobs:
        for owner, theirs in list(waiting.items()):
            while theirs:
                each = theirs.popleft()
                if apply(each):
                    applied.append(each)
                    jobs += _jobs_of(each, named)
                    break
            else:
                del waiting[owner]
    return applied


def _jobs_of(request: ReadRequest, named: Callable[[str], int]) -> int:
    """Return how many jobs `request` names; the tasks of an array in a launch count as one."""
    match request.body:
        case LaunchRequest(launch=launch):
            return len(launch.jobs)
        case (
            JobsRequest(targets=targets)
            | UpdateRequest(targets=targets)
            | FollowRequest(targets=targets)
        ):
            return sum(map(named, set(targets)))
        case _:
            return 1
