"""
The draft of the next root: the changes of one turn before the commit.

It is the only mutable state of a turn. It is used on one thread, and is discarded if the commit
fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from bastion.array import ArrayRecord, taken, task_over
from bastion.history.ended_attempt import Hardware, ended_array, ended_attempt, has_row
from bastion.job import JobRecord, Phase, state_of
from bastion.lifecycle import Event as JobEvent
from bastion.lifecycle import HostHeld, HostIdle, HostUnkept, Withdrawn, remark, step
from bastion.lifecycle.outcome import unkept_news
from bastion.lifecycle.step import TABLE
from bastion.machine import Batch, Follow, Instruction, Machine, Pool, Warm
from bastion.phrases import stop_text
from bastion.records.reports.history import EndedAttempt, HistoryRecord
from bastion.records.requests.answer import Answer
from bastion.records.root import Event, Root, Segment
from bastion.records.settings.notification import Notification, notifications_of
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.runs import with_end
from bastion.service.draft.launch_index import LaunchIndex
from bastion.service.draft.machine_news import end_news, machine_news
from bastion.service.draft.places import places_of, places_of_array
from bastion.spec import tasks_of_id
from bastion.value import replace

MAX_OUTBOX = 1000
"""Most notifications that wait in root. At half a kilobyte each they stay a small part of it."""
MAX_OUTBOX_OF_ONE = 500
"""The same for one webhook: one that is down for hours must not displace the others."""
BACKLOG = 200
"""With this many from earlier turns it gets no more: those of one turn are sent in seconds."""
NO_POOLS: Mapping[str, Pool] = MappingProxyType({})


_T = TypeVar("_T")


class Draft:
    """
    One turn's changes to `root`, as of `now`.

    `is_changed`: there is something to commit. `is_scheduling`: something changed that matters to
    the scheduler. `working` names the jobs that are not just queued, so the cost of a turn does not
    grow with the queue. `dependents` names the jobs that wait for other jobs, and `queued` counts
    the waiting jobs of each user; an array counts as one job.

    Args:
        working: Those of `root` if the caller knows them; else they are searched for.
        dependents: The same.
        queued: The same.
        pools: Those in force: the prices and shapes of machines, for the history.
    """

    def __init__(
        self,
        root: Root,
        now: float,
        *,
        working: Iterable[str] | None = None,
        dependents: Iterable[str] | None = None,
        queued: Mapping[str, int] | None = None,
        pools: Mapping[str, Pool] = NO_POOLS,
    ) -> None:
        self.root = root
        self.now = now
        self.seq = root.seq + 1
        self.jobs: dict[str, JobRecord] = dict(root.jobs)
        self.arrays: dict[str, ArrayRecord] = dict(root.arrays)
        if working is None:
            working = (job.id for job in root.jobs.values() if job.phase is not Phase.QUEUED)
        self.working: dict[str, None] = dict.fromkeys(working)
        if dependents is None:
            arrays = (array.each for array in root.arrays.values())
            dependents = (job.id for job in (*root.jobs.values(), *arrays) if job.after)
        self.dependents: dict[str, None] = dict.fromkeys(dependents)
        self.queued = Counter(queued_by_user(root) if queued is None else queued)
        self.machines: dict[str, Machine] = dict(root.machines)
        self.pools = pools
        self.warm: Mapping[str, Warm] = root.warm
        self.answers: dict[str, Answer] = dict(root.answers)
        self.sealed: tuple[Segment, ...] = root.sealed
        self.promises = root.promises
        self.planned = root.planned
        self.outbox = root.outbox
        self.runs = root.runs
        self.is_changed = False
        self.is_scheduling = False
        self.by_launch = LaunchIndex(root.jobs, self.jobs, self.arrays)
        self._kept_events = root.events
        self._events: list[Event] = []
        self.first: dict[str, tuple[str, bytes]] = {}
        """Objects written before the commit: the request that needs each, and its bytes."""
        self._instructions: dict[str, list[Instruction]] = {}
        self._followed: set[tuple[str, Follow]] = set()

    def apply(self, job_id: str, event: JobEvent) -> None:
        """Apply `event` to a job, and record the change of its state in the history."""
        before = self.jobs[job_id]
        after = step(before, event, self.now)
        if after is before or after == before:
            return
        self.put(after)
        for told in notifications_of(before, after, self.now) if after.notify else ():
            self._notify(told)
        state = state_of(after)
        if isinstance(event, Withdrawn):
            text = f"its machines are not created: {event.text}"
            self.tell(what=state, text=text, job=after)
        elif state_of(before) != state:
            self._tell_state(after, state, self._row(before, after))
        elif isinstance(event, HostIdle | HostHeld):
            what = "held" if isinstance(event, HostHeld) else "idle"
            self.tell(what=what, text=remark(after) or "it shows signs of life again", job=after)
        elif isinstance(event, HostUnkept) and (text := unkept_news(before.attempt, after.attempt)):
            self.tell(what="output", text=text, job=after)
        if before.after and not after.after and after.phase is Phase.QUEUED:
            self.is_scheduling = True
            self.tell(what="ready", text="all that it waited for has ended", job=after)
        if before.phase is not after.phase or before.alive != after.alive:
            self.is_scheduling = True
        if after.phase is Phase.DRAINING and before.phase is not Phase.DRAINING:
            self.runs = with_end(self.runs, after, self.now)

    def _row(self, before: JobRecord, after: JobRecord) -> EndedAttempt | None:
        """Return the row of what ended between `before` and `after`, or None if nothing did."""
        if not has_row(before, after):
            return None
        stop = before.attempt.stop if before.attempt is not None else None
        preemptor = self.jobs.get(stop.by) if stop is not None else None
        hardware = Hardware(machines=self.machines, pools=self.pools)
        stopped_for = preemptor.project if preemptor is not None else ""
        return ended_attempt(before, after, self.now, hardware, stopped_for=stopped_for)

    def _notify(self, told: Notification) -> None:
        waiting = sum(each.to == told.to for each in self.outbox)
        before = sum(each.to == told.to for each in self.root.outbox)
        if before < BACKLOG and waiting < MAX_OUTBOX_OF_ONE and len(self.outbox) < MAX_OUTBOX:
            self.outbox = (*self.outbox, told)
            return
        text = f"{told.id}: {waiting} others wait for the same webhook, {len(self.outbox)} for all"
        self.tell_of(told.job, told.project, what="notification dropped", text=text)

    def delivered(self, notification: str) -> None:
        """Remove a notification that was delivered or given up."""
        left = tuple(each for each in self.outbox if each.id != notification)
        self.is_changed = self.is_changed or len(left) != len(self.outbox)
        self.outbox = left

    def can(self, job_id: str, event: JobEvent) -> bool:
        """Whether `event` is possible in the current phase of the job."""
        return (self.jobs[job_id].phase, type(event)) in TABLE

    def put(self, job: JobRecord) -> None:
        """Add `job`, or replace it."""
        before = self.jobs.get(job.id)
        self.queued[job.user] += places_of(job) - (places_of(before) if before is not None else 0)
        self.jobs[job.id] = job
        if before is None:
            self.by_launch.add(job)
        if job.phase is Phase.QUEUED:
            self.working.pop(job.id, None)
        else:
            self.working[job.id] = None
        if job.after and job.phase is Phase.QUEUED:
            self.dependents[job.id] = None
        else:
            self.dependents.pop(job.id, None)
        self.is_changed = True

    def add(self, job: JobRecord) -> None:
        """Add a new job."""
        self.put(job)
        self.is_scheduling = True
        self.tell(what="submitted", job=job, text=f"by {job.user}")

    def add_array(self, array: ArrayRecord) -> None:
        """Add a new array: one record and one line of history for all its tasks."""
        self.put_array(array)
        self.is_scheduling = True
        n = len(array.tasks)
        text = f"by {array.each.user}: {n} {'task' if n == 1 else 'tasks'}"
        self.tell(what="submitted", job=array.each, text=text)

    def put_array(self, array: ArrayRecord) -> None:
        """Add `array`, or replace it."""
        before = self.arrays.get(array.id)
        had = places_of_array(before) if before is not None else 0
        self.queued[array.each.user] += places_of_array(array) - had
        self.arrays[array.id] = array
        if array.each.after and array.ended_at is None:
            self.dependents[array.id] = None
        else:
            self.dependents.pop(array.id, None)
        self.is_changed = True
        if array.ended_at is not None and (before is None or before.ended_at is None):
            self._tell_ended(array)

    def _tell_ended(self, array: ArrayRecord) -> None:
        outcome, each = array.outcome, array.each
        self.tell(what=outcome.kind.value, job=each, text=outcome.text, record=ended_array(array))
        ended = replace(each, phase=Phase.DONE, outcome=outcome, ended_at=array.ended_at)
        for told in notifications_of(each, ended, self.now) if each.notify else ():
            self._notify(told)

    def take_task(self, task: str) -> JobRecord:
        """Give a waiting task its own record, and return it."""
        named = tasks_of_id(task)
        assert named is not None, f"{task} is not a task"
        array, index = self.arrays[named[0]], named[1].first
        self.put_array(taken(array, index))
        self.put(array.task(index))
        return self.jobs[task]

    def working_jobs(self) -> Iterator[JobRecord]:
        """Yield the jobs that are not just queued; the draft can change in the meantime."""
        for job_id in tuple(self.working):
            if job_id in self.jobs:
                yield self.jobs[job_id]

    def withdraw(self, names: Collection[str]) -> None:
        """Undo `add` or `add_array` for jobs that are refused in the turn that added them."""
        gone = frozenset(names)
        committed = gone & (self.root.jobs.keys() | self.root.arrays.keys())
        assert not committed, f"{', '.join(sorted(committed))}: committed"
        for name in gone:
            job, array = self.jobs.pop(name, None), self.arrays.pop(name, None)
            if job is not None:
                self.queued[job.user] -= places_of(job)
            if array is not None:
                self.queued[array.each.user] -= places_of_array(array)
            self.dependents.pop(name, None)
            self.working.pop(name, None)  # another request of this turn has cancelled it
        self.outbox = tuple(each for each in self.outbox if each.job not in gone)
        kept = (event for event in self._events if event.job not in gone)
        self._events = [replace(event, n=self.root.next_event + i) for i, event in enumerate(kept)]

    def result_written(self, job_id: str) -> None:
        """Remove a finished job once its final record is written; its array marks a task ended."""
        job = self.jobs.get(job_id)
        if job is not None and job.phase is Phase.DONE:
            del self.jobs[job_id], self.working[job_id]
            self.is_changed = True
            if job.task is not None and job.outcome is not None:
                array = self.arrays[job.launch]
                self.put_array(task_over(array, job.task, job.outcome, self.now))

    def array_written(self, array_id: str) -> None:
        """Remove an array whose tasks have all ended, once its final record is written."""
        array = self.arrays.get(array_id)
        if array is not None and array.ended_at is not None:
            del self.arrays[array_id]
            self.is_changed = True

    def batch_written(self, name: str, batch: Batch) -> None:
        """Record that a batch of instructions is written."""
        machine = self.machines.get(name)
        if machine is None or machine.life != batch.life:
            return
        outgoing = tuple(each for each in machine.outgoing if each.number != batch.number)
        self.put_machine(replace(machine, outgoing=outgoing))

    def batch_spoilt(self, name: str, batch: Batch) -> None:
        """Move the instructions of a batch into the next one, because its number is taken."""
        machine = self.machines.get(name)
        if machine is None or batch not in machine.outgoing:
            return
        self.batch_written(name, batch)
        for instruction in batch.instructions:
            self.instruct(name, instruction)

    def answered(self, key: str) -> None:
        """Record that the answer to a request is written."""
        if self.answers.pop(key, None) is not None:
            self.is_changed = True

    def segment_written(self, first: int) -> None:
        """Record that a sealed range of events is written."""
        kept = tuple(segment for segment in self.sealed if segment.first != first)
        self.is_changed = self.is_changed or len(kept) != len(self.sealed)
        self.sealed = kept

    def seal(self, *, at_most: int, older_than: float) -> None:
        """Seal the events of root if there are many, or if the first is older than `older_than`."""
        events = self.root.events
        if len(events) >= at_most or (events and events[0].at < older_than):
            self.sealed = (*self.sealed, Segment(first=events[0].n, events=events))
            self._kept_events = ()
            self.is_changed = True

    def put_machine(self, machine: Machine) -> None:
        """Add `machine`, or replace it."""
        before = self.machines.get(machine.name)
        if before == machine:
            return
        self.machines[machine.name] = machine
        self.is_changed = True
        for what, text in machine_news(before, machine, self.now):
            self.tell(what=what, text=text)
        if before is None or _standing(before) != _standing(machine):
            self.is_scheduling = True

    def set_warm(self, warm: Mapping[str, Warm]) -> None:
        """Record how many machines of which pools are kept ready."""
        if warm != self.warm:
            self.warm = warm
            self.is_changed = True

    def drop_machine(self, name: str, unmade: str = "") -> None:
        """Remove a machine that is confirmed gone, or that was not created for the given reason."""
        machine = self.machines.pop(name)
        self._instructions.pop(name, None)
        self.is_changed = self.is_scheduling = True
        what, text = end_news(machine, unmade)
        self.tell(what=what, text=text)

    def keep_word(self, promises: tuple[Promise, ...], planned: tuple[PlannedStart, ...]) -> bool:
        """Record the scheduler's reservations; return True if they differ from those in root."""
        if (promises, planned) == (self.promises, self.planned):
            return False
        self.promises, self.planned = promises, planned
        self.is_changed = True
        return True

    def answer(self, key: str, answer: Answer) -> None:
        """Record the answer to a request, which is written after the commit."""
        self.answers[key] = answer
        self.is_changed = True

    def brought(self, key: str) -> Answer | None:
        """Return the answer that accepted a launch in this turn; its jobs are not committed yet."""
        answer = None if key in self.root.answers else self.answers.get(key)
        if answer is None or not answer.launch:
            return None
        return answer if all(map(self._is_new, answer.jobs)) else None

    def _is_new(self, job: str) -> bool:
        is_here = job in self.jobs or job in self.arrays
        return is_here and job not in self.root.jobs and job not in self.root.arrays

    def instruct(self, machine: str, instruction: Instruction) -> None:
        """
        Allocate an instruction. All instructions to one machine go into one batch.

        An instruction to follow a job is sent once: a thousand users may read the logs of one job.
        """
        if isinstance(instruction, Follow):
            if (machine, instruction) in self._followed:
                return
            self._followed.add((machine, instruction))
        self._instructions.setdefault(machine, []).append(instruction)
        self.is_changed = True

    def write_first(self, key: str, data: bytes, *, request: str) -> None:
        """Write an object before the commit, which relies on it; `request` asked for it."""
        self.first[key] = request, data

    def tell(
        self,
        *,
        what: str,
        text: str = "",
        job: JobRecord | None = None,
        record: HistoryRecord | None = None,
    ) -> None:
        """Add a line to the history, and a row if something ended."""
        name, project = (job.id, job.project) if job is not None else ("", "")
        self.tell_of(name, project, what=what, text=text, record=record)

    def tell_of(
        self,
        job: str,
        project: str,
        *,
        what: str,
        text: str = "",
        record: HistoryRecord | None = None,
    ) -> None:
        """Add a line about a job that may already be gone."""
        number = self.root.next_event + len(self._events)
        self._events.append(
            Event(
                n=number,
                at=self.now,
                job=job,
                project=project,
                what=what,
                text=text,
                record=record,
            )
        )
        self.is_changed = True

    def finish(self, *, write_id: str, cycles: Iterable[float] = (), **changes: object) -> Root:
        """Return the root to commit; the first event of this turn carries earlier `cycles`."""
        if self._events:
            silent = tuple(sorted({at for at in cycles if at < self.now}))
            self._events[0] = replace(self._events[0], cycles=silent)
        for name, instructions in sorted(self._instructions.items()):
            machine = self.machines[name]
            batch = Batch(
                number=machine.batches + 1, life=machine.life, instructions=tuple(instructions)
            )
            self.machines[name] = replace(
                machine, batches=batch.number, outgoing=(*machine.outgoing, batch)
            )
        return replace(
            self.root,
            seq=self.seq,
            now=self.now,
            write_id=write_id,
            prev_write_id=self.root.write_id,
            jobs=_unless_equal(self.jobs, self.root.jobs),
            arrays=_unless_equal(self.arrays, self.root.arrays),
            machines=_unless_equal(self.machines, self.root.machines),
            answers=self.answers,
            outbox=self.outbox,
            runs=self.runs,
            events=(*self._kept_events, *self._events),
            sealed=self.sealed,
            warm=self.warm,
            promises=self.promises,
            planned=self.planned,
            next_event=self.root.next_event + len(self._events),
            **changes,  # type: ignore[arg-type]
        )

    def machines_in_use(self) -> set[str]:
        """Return the machines that an attempt or its logs still need, or that a gang reserves."""
        needed = {
            place.machine
            for job in self.working_jobs()
            if job.attempt is not None
            for _, _, place, _ in job.attempt.each_host()
        }
        kept = [each for promise in self.promises for each in promise.placements]
        kept += [each for start in self.planned for each in start.placements]
        return needed | {
            host.machine for each in kept for replica in each for host in replica.hosts
        }

    def _tell_state(self, job: JobRecord, state: str, record: EndedAttempt | None) -> None:
        text = ""
        if job.outcome is not None:
            text = job.outcome.text
        elif job.phase is Phase.QUEUED and job.held:
            text = f"by {job.held}"
        elif job.phase is Phase.QUEUED:
            text = job.last.text if job.last is not None else "released"
        elif job.phase is Phase.STOPPING and job.attempt and job.attempt.stop:
            text = stop_text(job.attempt.stop.reason, job.attempt.stop.by)
        elif job.is_kept:
            text = remark(job)
        elif job.attempt is not None:
            places = {host.machine for r in job.attempt.placement for host in r.hosts}
            text = f"attempt {job.attempt.number} on {', '.join(sorted(places)[:4])}"
            text += f" and {len(places) - 4} more" if len(places) > 4 else ""
        self.tell(what=state, text=text, job=job, record=record)


def queued_by_user(root: Root) -> Counter[str]:
    """Count the places that each user has in the queue; an array usually has one."""
    found: Counter[str] = Counter()
    for job in root.jobs.values():
        found[job.user] += places_of(job)
    for array in root.arrays.values():
        found[array.each.user] += places_of_array(array)
    return +found


def _unless_equal(new: Mapping[str, _T], old: Mapping[str, _T]) -> Mapping[str, _T]:
    """Return `old` if `new` equals it: what is built from all jobs is rebuilt only for others."""
    return old if new == old else new


def _standing(machine: Machine) -> tuple[object, ...]:
    """Return the part of a machine's record that matters to the scheduler."""
    return (
        machine.phase,
        machine.resources,
        machine.labels,
        machine.hostname,
        machine.cordoned,
        machine.draining,
        machine.drained_at,
        machine.bad_devices,
        machine.unwell,
    )
