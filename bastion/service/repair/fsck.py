"""
The audit of a bucket: every rule of the protocol that can be checked from outside, on a survey.

Each rule is a pure function from a `Survey` to its findings. A live bastion is always between two
writes; `audit` therefore surveys twice when it finds anything, and reports only what it found both
times. Nothing here writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from math import inf

from bastion.clock import Clock
from bastion.errors import SpecError
from bastion.job import Attempt, HostPlace, HostState, JobRecord, OutcomeKind, Phase
from bastion.machine import Machine, Pool
from bastion.machine_name import parse_machine
from bastion.records.keys import layout
from bastion.records.reports.registers import ClaimRegister, EndRegister, GoRegister
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.root import Root
from bastion.service.act.bucket_gc import DAY_S, KEEP_S
from bastion.service.config.pool_config import parse_config
from bastion.service.config.settings import LOCAL, Pace
from bastion.service.publish.queue_view import queue_view
from bastion.service.publish.view_json import view_bytes
from bastion.service.publish.views import pool_view
from bastion.service.repair.overdue import LONG_S, endless, unclaimed
from bastion.service.repair.survey import Survey, survey
from bastion.spec import Indices, job_ids, task_id, tasks_of_id
from bastion.store import ObjectStore
from bastion.value import value
from quota import Amounts
from quota.amounts import NOTHING

AGAIN_S = 1.0
"""The least time between the two surveys; two and a half turns of the leader if that is longer."""


@value
class Finding:
    """One violation of a rule of the protocol."""

    rule: str
    """Name of the rule, a key of `RULES`."""
    key: str
    """The object, job or machine that breaks it."""
    text: str


def audit(
    store: ObjectStore, clock: Clock, *, pace: Pace = LOCAL, since_s: float = inf
) -> tuple[Finding, ...]:
    """
    Return the violations in this bucket, rule by rule; none if the bucket is consistent.

    Args:
        store: The bucket.
        clock: For the wait between the two surveys.
        pace: The pace of a leader there, which limits how long a write can stay half done.
        since_s: Objects that belong to nothing active are read only if they are at most this old.

    Raises:
        NotFoundError: It has no root.
        RecordError: Its root cannot be decoded.
        StoreError: Out of reach.
    """
    first = findings(survey(store, since_s=since_s))
    if not first:
        return ()
    clock.sleep(max(AGAIN_S, 2.5 * pace.busy_poll_s))
    seen = {(finding.rule, finding.key) for finding in first}
    again = findings(survey(store, since_s=since_s))
    return tuple(finding for finding in again if (finding.rule, finding.key) in seen)


def findings(seen: Survey) -> tuple[Finding, ...]:
    """
    Return every violation in `seen`, in the order of `RULES`.

    A rule that cannot be checked because root is too damaged counts as violated.
    """
    return tuple(
        Finding(rule=name, key=key, text=text)
        for name, (_, check) in RULES.items()
        for key, text in _checked(check, seen)
    )


Broken = Iterator[tuple[str, str]]
"""(key, what is wrong with it)"""


def _checked(check: Callable[[Survey], Broken], seen: Survey) -> Broken:
    try:
        yield from check(seen)
    except Exception as error:  # noqa: BLE001 - a rule that fails must not hide other findings
        yield layout.ROOT, f"this rule cannot be checked on it: {error!r}"


def _readable(seen: Survey) -> Broken:
    for key, text in seen.unread.items():
        yield key, text.removeprefix(f"{key}: ")


def _history(seen: Survey) -> Broken:
    root = seen.root
    ranges = {first: len(events) for first, events in seen.segments.items()}
    ranges |= {segment.first: len(segment.events) for segment in root.sealed}
    if root.events:
        ranges[root.events[0].n] = len(root.events)
    expected = seen.history_from
    for first, count in sorted(ranges.items()):
        if first > expected:
            yield layout.events(expected), f"events {expected} to {first - 1} are missing"
        elif first < expected:
            yield layout.events(first), f"events {first} to {expected - 1} are stored twice"
        expected = first + count
    if expected != root.next_event:
        yield layout.ROOT, f"the next event is {root.next_event}, but {expected} are known"
    for first, events in seen.segments.items():
        if [event.n for event in events] != list(range(first, first + len(events))):
            yield layout.events(first), "its events are not numbered without a gap"


def _inbox(seen: Survey) -> Broken:
    for entry in seen.inbox:
        waited_s = seen.now - entry.modified_at
        if waited_s < LONG_S:
            continue
        name = layout.parse_request(entry.key)
        is_answered = name is not None and (
            layout.answer(name.project, name.user, name.ulid) in seen.answers
        )
        what = "answered and never deleted" if is_answered else "never processed"
        yield entry.key, f"in the inbox for {waited_s / 60:.0f} minutes: {what}"


def _answers(seen: Survey) -> Broken:
    for key, answer in seen.answers.items():
        name = layout.parse_answer(key)
        if name is None or not (answer.accepted and answer.verb == "launch"):
            continue
        for job in answer.jobs:
            is_active = job in seen.root.jobs or job in seen.root.arrays
            if not is_active and (name[0], job) not in seen.results:
                yield key, f"{job} was accepted, but is not active and has no final record"
    for spec in seen.launches.values():
        key = layout.answer(spec.project, spec.user, spec.ulid)
        if key not in seen.written and _was_accepted(seen, spec) and not _is_pending(seen, spec):
            yield key, f"{spec.id} was accepted, but its answer is missing"


def _was_accepted(seen: Survey, spec: SpecRecord) -> bool:
    """Whether a job of `spec` is active or has ended, and its answer is not yet collected."""
    written_at = seen.written[layout.spec(spec.project, spec.id)]
    if seen.now - written_at > KEEP_S - DAY_S:
        return False
    return any(
        job in seen.root.jobs or job in seen.root.arrays or (spec.project, job) in seen.results
        for job in job_ids(spec.launch, spec.ulid)
    )


def _is_pending(seen: Survey, spec: SpecRecord) -> bool:
    """Whether the answer to the request of `spec` must still be written."""
    asked = layout.request(spec.project, spec.user, spec.ulid, "launch")
    is_waiting = any(entry.key == asked for entry in seen.inbox)
    return is_waiting or f"{spec.project}/{spec.user}/{spec.ulid}" in seen.root.answers


def _specs(seen: Survey) -> Broken:
    for job in seen.root.jobs.values():
        if (job.project, job.launch) not in seen.specs:
            key = layout.spec(job.project, job.launch)
            yield key, f"{job.id} is active, but its launch has no spec"
    for array in seen.root.arrays.values():
        if (array.project, array.id) not in seen.specs:
            yield layout.spec(array.project, array.id), f"{array.id} is active, but has no spec"


def _results(seen: Survey) -> Broken:
    for job in seen.root.jobs.values():
        if job.phase is not Phase.DONE and (job.project, job.id) in seen.results:
            key = layout.result(job.project, job.id)
            yield key, f"the final record exists, but the job is {job.phase} in root"
    for array in seen.root.arrays.values():
        if array.ended_at is None and (array.project, array.id) in seen.results:
            key = layout.result(array.project, array.id)
            yield key, "the final record exists, but tasks of the array are active in root"
    for job in seen.root.jobs.values():
        final = seen.finals.get((job.project, job.id))
        said = job.outcome.kind.value if job.outcome is not None else ""
        if said and final is not None and final.outcome != said:
            key = layout.result(job.project, job.id)
            yield key, f"it says {final.outcome}, and root says {said}"
    ended = [(array.project, array.id, array.ended) for array in seen.root.arrays.values()]
    ended += [(*name, final.tasks) for name, final in seen.finals.items() if final.tasks]
    for project, array_id, by_kind in ended:
        for kind, tasks in by_kind.items():
            # A task that was cancelled before its first admission has no record of its own.
            for index in tasks if kind != OutcomeKind.CANCELLED.value else ():
                if (project, task_id(array_id, index)) not in seen.results:
                    key = layout.result(project, task_id(array_id, index))
                    yield key, f"its array says that it {kind}, but it has no final record"


def _tasks(seen: Survey) -> Broken:
    own: dict[str, list[int]] = defaultdict(list)
    for job in seen.root.jobs.values():
        if job.task is not None:
            own[job.launch].append(job.task)
            if job.launch not in seen.root.arrays:
                yield job.id, f"it is a task of {job.launch}, which root does not know"
    for array in seen.root.arrays.values():
        places = [array.waiting, Indices.of(own[array.id]), *array.ended.values()]
        together = Indices(pair for place in places for pair in place.pairs)
        if together != array.tasks or sum(map(len, places)) != len(array.tasks):
            yield array.id, "one of its tasks is in two places, or in none"
    for project, name in seen.results:
        named = tasks_of_id(name)
        waits = seen.root.arrays.get(named[0]) if named is not None else None
        if named is not None and waits is not None and named[1] & waits.waiting:
            yield (
                layout.result(project, name),
                "the final record exists, but the task waits in root",
            )


def _dependencies(seen: Survey) -> Broken:
    jobs = seen.root.jobs.values()
    names = {name for job in jobs for name in (job.id, job.launch) if job.phase is not Phase.DONE}
    names |= {array.id for array in seen.root.arrays.values() if array.ended_at is None}
    arrays = [array.each for array in seen.root.arrays.values() if array.ended_at is None]
    for job in (*jobs, *arrays):
        for each in job.after if job.phase is Phase.QUEUED else ():
            if each.on not in names:
                yield job.id, f"waits for {each.on}, which is not active, so it waits forever"


def _devices(seen: Survey) -> Broken:
    holders: dict[tuple[str, str, int], str] = {}
    for job, _, _, place, _ in _running(seen.root):
        for kind, indices in place.devices.items():
            for index in indices:
                other = holders.setdefault((place.machine, kind, index), job.id)
                if other != job.id:
                    text = f"{other} and {job.id} both hold {kind} {index} of {place.machine}"
                    yield f"{place.machine}/{kind}/{index}", text


def _capacity(seen: Survey) -> Broken:
    used: dict[str, list[Amounts]] = defaultdict(list)
    for job, _, _, place, _ in _running(seen.root):
        held = Amounts({kind: len(indices) for kind, indices in place.devices.items()})
        if job.request.hosts == 1:
            held = held | job.request.per_replica
        used[place.machine].append(held)
        machine = seen.root.machines.get(place.machine)
        if machine is None:
            yield place.machine, f"{job.id} runs on it, but root does not know it"
            continue
        for kind, indices in place.devices.items():
            if max(indices, default=-1) >= machine.resources[kind]:
                has = machine.resources[kind]
                yield place.machine, f"{job.id} holds {kind} {max(indices)}; it has {has}"
    for name, amounts in used.items():
        there = seen.root.machines[name].resources if name in seen.root.machines else NOTHING
        total = Amounts.sum(amounts)
        for kind in there.types():
            if total[kind] > there[kind]:
                yield name, f"{total[kind]} {kind} are in use; it has {there[kind]}"


def _registers(seen: Survey) -> Broken:
    for job in seen.root.jobs.values():
        attempt = job.attempt
        if attempt is None:
            continue
        yield from _barrier(seen, job, attempt)
        for replica, host, place, state in attempt.each_host():
            where = (job.project, job.id, attempt.number, attempt.nonce)
            machine = place.machine
            claim_key = layout.claim(*where, replica=replica, host=host, machine=machine)
            claim = seen.registers.get(claim_key)
            yield from _claim(state, machine, claim_key, claim)
            end_key = layout.end(*where, replica=replica, host=host, machine=machine)
            yield from _end(seen, state, end_key, claim)


def _barrier(seen: Survey, job: JobRecord, attempt: Attempt) -> Broken:
    if attempt.go not in ("given", "revoked"):
        return
    key = layout.go(job.project, job.id, attempt.number, attempt.nonce)
    found = seen.registers.get(key)
    found_as = "nothing"
    if isinstance(found, GoRegister):
        found_as = "given" if found.addresses else "revoked"
    if found_as != attempt.go:
        yield key, f"root says {attempt.go}, the register says {found_as}"


def _claim(state: HostState, machine: str, key: str, found: object) -> Broken:
    claimed = found.claim if isinstance(found, ClaimRegister) else None
    if claimed is not None and claimed.machine != machine:
        yield key, f"{claimed.machine} claimed what was placed on {machine}"
    if state.claim is not None and claimed is None:
        is_what = "is revoked" if isinstance(found, ClaimRegister) else "is missing"
        yield key, f"root says that {state.claim.machine} claimed it, the register {is_what}"


def _end(seen: Survey, state: HostState, key: str, claim: object) -> Broken:
    found = seen.registers.get(key)
    is_revoked = isinstance(claim, ClaimRegister) and claim.claim is None
    if state.end is None and state.over_at is not None and found is None:
        yield (
            key,
            "its machine reported its end, but the end record is missing: it was deleted unread",
        )
    if state.end is None or key in seen.unread or is_revoked:
        return
    found_as = found.end.kind if isinstance(found, EndRegister) else "nothing"
    if found_as != state.end.kind:
        yield key, f"root says {state.end.kind}, the register says {found_as}"


def _logs(seen: Survey) -> Broken:
    whole = {prefix: _whole(segments) for prefix, segments in seen.logs.items()}
    for prefix, (end, total) in whole.items():
        if end != total:
            yield prefix, f"its segments have a gap at byte {end}"
    for key, found in seen.registers.items():
        name = layout.parse_register(key)
        if name is None or not isinstance(found, EndRegister):
            continue
        if (name.project, name.job) not in seen.results:
            continue
        for process, size in enumerate(found.end.sizes):
            prefix = layout.log(
                name.project, name.job, name.attempt,
                replica=name.replica, host=name.host, process=process,
            )  # fmt: skip
            end, _ = whole.get(prefix, (0, 0))
            if end < size:
                yield prefix, f"{end} bytes are stored; its end says that {size} were printed"


def _whole(segments: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """Return the end of the segments without a gap, and the end of the last segment, in bytes."""
    end = 0
    for offset, size in sorted(segments):
        if offset != end:
            return end, max(offset + size for offset, size in segments)
        end += size
    return end, end


def _instructions(seen: Survey) -> Broken:
    for (name, life), numbers in seen.batches.items():
        missing = set(range(numbers[0], numbers[-1] + 1)) - set(numbers)
        if missing:
            key = layout.instructions(name, life, min(missing))
            yield key, "missing between its neighbours: the agent waits for it forever"
    for machine in seen.root.machines.values():
        yield from _allocated(seen, machine)


def _allocated(seen: Survey, machine: Machine) -> Broken:
    """Compare the batches of the machine's current life with those that commits allocated."""
    written = set(seen.batches.get((machine.name, machine.life), ()))
    unwritten = {batch.number for batch in machine.outgoing}
    known = written | unwritten
    registered_at = seen.written.get(layout.life(machine.name, machine.life), seen.now)
    # Garbage collection deletes old batches, the oldest first.
    is_collected = seen.now - registered_at > KEEP_S
    first = min(known, default=1) if is_collected else 1
    missing = set(range(first, machine.batches + 1)) - known
    if missing:
        key = layout.instructions(machine.name, machine.life, min(missing))
        yield key, f"missing, though {machine.batches} were allocated"
    if max(written, default=0) > machine.batches:
        key = layout.instructions(machine.name, machine.life, max(written))
        yield key, f"not allocated by root, which has allocated {machine.batches}"


def _lives(seen: Survey) -> Broken:
    for machine in seen.root.machines.values():
        if machine.life and machine.life not in seen.lives.get(machine.name, ()):
            yield layout.life(machine.name, machine.life), "missing, though it has sent bells"


def _numbers(seen: Survey) -> Broken:
    root = seen.root
    if root.seq < seen.seq:
        yield layout.ROOT, f"it is commit {root.seq}, but commit {seen.seq} was published or copied"
    if root.epoch < seen.epoch:
        yield layout.ROOT, f"it is of epoch {root.epoch}, but epoch {seen.epoch} was published"


def _future(seen: Survey) -> Broken:
    pools = _pools(seen.root)
    names = {*seen.root.machines, *seen.lives, *(machine for machine, _ in seen.batches)}
    for name in sorted(names):
        for pool in pools:
            named = parse_machine(name, pool)
            if named and named.seq > seen.root.seq:
                yield name, f"named by commit {named.seq}, but root is at commit {seen.root.seq}"


def _views(seen: Survey) -> Broken:
    root = seen.root
    views: Mapping[str, Callable[[], object]] = {
        "queue": lambda: queue_view(root, None),
        "pool": lambda: pool_view(root, _configured(root)),
    }
    for name, make in views.items():
        try:
            view_bytes(make())
        except Exception as error:  # noqa: BLE001 - any failure is a finding
            yield layout.view(name), f"it cannot be built from root: {error!r}"


def _pools(root: Root) -> set[str]:
    return {machine.pool for machine in root.machines.values()} | set(_configured(root))


def _configured(root: Root) -> Mapping[str, Pool]:
    try:
        return parse_config(root.config_text).pools
    except SpecError:
        return {}


def _running(root: Root) -> Iterator[tuple[JobRecord, int, int, HostPlace, HostState]]:
    """Yield (job, replica, host, place, state) of every host whose devices count as used."""
    for job in root.jobs.values():
        if job.attempt is not None and job.is_admitted:
            for replica, host, place, state in job.attempt.each_host():
                if state.end is None:
                    yield job, replica, host, place, state


RULES: Mapping[str, tuple[str, Callable[[Survey], Broken]]] = {
    "readable": ("every record matches its schema", _readable),
    "history": ("events have neither gap nor repeat", _history),
    "inbox": ("every object in the inbox is new", _inbox),
    "answers": ("every accepted job is active or has a final record", _answers),
    "specs": ("every active job has its spec", _specs),
    "results": ("a job with a final record is not active", _results),
    "dependencies": ("what a job waits for is active", _dependencies),
    "tasks": ("every task of an array is in one place", _tasks),
    "alone": ("no two jobs share a device", _devices),
    "capacity": ("no machine holds more than it has", _capacity),
    "registers": ("claims, ends and barriers are what root says", _registers),
    "starts": ("every start instruction is claimed within minutes", unclaimed),
    "ends": ("every claim of an attempt that is over has an end", endless),
    "logs": ("every printed byte that an end counts is stored, without a gap", _logs),
    "instructions": ("numbers of instructions have no gap", _instructions),
    "lives": ("every keeper life that sent bells has its register", _lives),
    "numbers": ("commits and epochs never go back", _numbers),
    "future": ("no machine is named by a commit after root's", _future),
    "views": ("every view can be made of root", _views),
}
"""By name: what the rule promises, and the function that finds its violations."""
