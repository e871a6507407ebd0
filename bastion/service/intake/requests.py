"""
Requests applied to a draft: they become jobs, stops and holds, or are refused.

The path of a request identifies its user, never its body. A refusal lists every problem. A verb on
an unknown job waits, because the launch may still arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from bastion.array import ArrayRecord
from bastion.catalog import resource_types
from bastion.errors import SpecError
from bastion.job import JobRecord
from bastion.lifecycle import CancelWanted, Event, HeldBack, Released, Updated
from bastion.machine import Follow, Pool
from bastion.monitor import Options, grace_s
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.keys.layout import RequestName
from bastion.records.keys.ulid import is_ulid, seconds_of
from bastion.records.requests.answer import Answer
from bastion.records.requests.inbox import Waiting
from bastion.records.requests.job_request import (
    ExecRequest,
    FollowRequest,
    JobsRequest,
    UpdateRequest,
)
from bastion.records.requests.launch_request import LaunchRequest, SpecRecord
from bastion.records.requests.machine_request import (
    CheckRequest,
    DrainRequest,
    MachinesRequest,
    WarmRequest,
)
from bastion.records.requests.names import unknown_names
from bastion.records.requests.queued import queued_array, queued_jobs
from bastion.records.requests.quota_limits import limit_problems, runtime_problem, with_limit
from bastion.records.requests.request import Body
from bastion.records.requests.targets import NO_TARGETS, Targets
from bastion.records.root import MAX_ACTIVE_JOBS, as_kept
from bastion.records.settings.webhooks import Notifications
from bastion.scheduler.machine_report import MachineReport
from bastion.service.draft.dependencies import is_on_its_way, joining
from bastion.service.draft.places import PLACE_CHARACTERS, places_of, places_of_array
from bastion.service.draft.root_draft import Draft
from bastion.service.draft.targets import Aimed, change, changed, obstacle, targets_of
from bastion.service.intake.commands import execute
from bastion.service.intake.ended_jobs import is_same_request
from bastion.service.intake.machine_requests import change_machines, place_problem
from bastion.service.intake.permissions import membership_problem, ownership_problem
from bastion.spec import CodeRef, Launch, job_id, python_problems
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value
from quota import Quota

MAX_CLOCK_SKEW_S = 7 * 86400.0
"""A request whose ULID and store time differ by more is refused. Registers are kept far longer."""
MAX_PROBLEMS = 50
"""Maximum problems in one answer; the rest is counted."""
MAX_PROBLEM_CHARACTERS = 300
"""Maximum characters of one problem in an answer."""
MAX_JOB_BYTES = 64 << 10
"""Maximum bytes of one job's record in root, which every commit writes while the job is active."""
UNKNOWN_JOB_WAIT_S = 600.0
"""A verb on an unknown job waits this long, because its launch may arrive later."""


@value
class Rules:
    """The rules in force while requests are applied."""

    quota: Quota | None
    """None until there is a first valid quota file."""
    quota_problem: str = ""
    pools: Mapping[str, Pool]
    options: Options
    notifications: Notifications = Notifications()


def answer_key(waiting: Waiting) -> str:
    """Return the key of the answer to this request in root."""
    return key_of_answer(waiting.name)


def key_of_answer(name: RequestName) -> str:
    """Return the key in root of the answer to the request `name`."""
    return f"{name.project}/{name.user}/{name.ulid}"


def refuse(
    draft: Draft,
    waiting: Waiting,
    problems: Iterable[str],
    *,
    machines: tuple[MachineReport, ...] = (),
) -> None:
    """Answer a request with all its problems."""
    name = waiting.name
    draft.answer(
        answer_key(waiting),
        Answer(
            ulid=name.ulid,
            verb=name.verb,
            accepted=False,
            problems=told(problems),
            machines=machines,
            at=draft.now,
        ),
    )


def told(problems: Iterable[str]) -> tuple[str, ...]:
    """Return the first of `problems`, shortened: an answer stays in root until it is written."""
    every = tuple(problems)
    shown = [
        each if len(each) <= MAX_PROBLEM_CHARACTERS else f"{each[:MAX_PROBLEM_CHARACTERS]}..."
        for each in every[:MAX_PROBLEMS]
    ]
    more = len(every) - len(shown)
    return (*shown, f"and {more} more") if more > 0 else tuple(shown)


def accept(draft: Draft, waiting: Waiting, *, launch: str = "", jobs: Iterable[str] = ()) -> None:
    """Accept a request."""
    name = waiting.name
    draft.answer(
        answer_key(waiting),
        Answer(
            ulid=name.ulid,
            verb=name.verb,
            accepted=True,
            launch=launch,
            jobs=tuple(jobs),
            at=draft.now,
        ),
    )


def general_problems(
    waiting: Waiting, rules: Rules, owns: Callable[[str, str], bool] = lambda *_: True
) -> list[str]:
    """
    Return the problems of a request that do not depend on its body.

    `owns` returns whether a user has an active job in a project.
    """
    name = waiting.name
    if not is_ulid(name.ulid):
        return [f"request {name.ulid}: its name is not a ULID"]
    if abs(seconds_of(name.ulid) - waiting.entry.modified_at) > MAX_CLOCK_SKEW_S:
        return ["the request was made more than 7 days from the bucket's time: check your clock"]
    if problem := place_problem(name):
        return [problem]
    if name.project == layout.ADMIN:
        return []
    if rules.quota is None:
        why = rules.quota_problem or "there is none at project-quotas/project-quotas.config"
        return [f"no quota file is in force: {why}"]
    problem = membership_problem(name, rules.quota, owns)
    return [problem] if problem else []


def spec_record(waiting: Waiting, body: LaunchRequest) -> SpecRecord:
    """Return the `spec.json` of this launch: a function of the request alone."""
    name = waiting.name
    return SpecRecord(
        id=job_id(body.launch.name, name.ulid),
        project=name.project,
        user=name.user,
        ulid=name.ulid,
        launch=replace(body.launch, project=name.project),
        origin=body.origin,
        again_of=body.again_of,
    )


def apply_request(
    draft: Draft,
    waiting: Waiting,
    body: Body,
    rules: Rules,
    ended: Collection[str] = (),
    awaited: Targets = NO_TARGETS,
    taken: Collection[str] = (),
) -> bool:
    """
    Apply one request and answer it; return False if it must wait for an unknown job.

    The jobs of a launch are added; the scheduler decides later whether they can ever run. `ended`
    holds the targets of the request that have a final record, so nothing can change them. `taken`
    holds the jobs of a launch that have a final record from another request. `awaited` says how the
    dependencies of a launch ended. A launch that repeats an idempotency key is accepted as the
    earlier one.
    """
    match body:
        case LaunchRequest():
            return _launch(draft, waiting, body, rules, ended, awaited, taken)
        case FollowRequest(targets=targets):
            _follow(draft, waiting, targets)
            return True
        case ExecRequest():
            problem = execute(draft, waiting.name, body, rules.quota)
            if problem:
                refuse(draft, waiting, [problem])
            else:
                accept(draft, waiting, jobs=[body.job])
            return True
        case MachinesRequest() | DrainRequest() | CheckRequest() | WarmRequest():
            problems = change_machines(draft, waiting.name, body, rules.pools)
            if problems:
                refuse(draft, waiting, problems)
            else:
                accept(draft, waiting)
            return True
        case JobsRequest(targets=targets) | UpdateRequest(targets=targets):
            left = [target for target in targets if target not in ended]
            if not left and waiting.name.verb != "cancel":
                lost = f"has ended; {waiting.name.verb} is not possible any more"
                refuse(draft, waiting, [f"{target}: {lost}" for target in targets])
                return True
            return _change(draft, waiting, body, left, rules)
        case _:
            assert_never(body)


def _launch(
    draft: Draft,
    waiting: Waiting,
    body: LaunchRequest,
    rules: Rules,
    ended: Collection[str],
    awaited: Targets,
    taken: Collection[str],
) -> bool:
    launch, name, holders = body.launch, waiting.name, draft.by_launch.holders
    problems = _launch_problems(draft, waiting, launch, rules)
    jobs: tuple[JobRecord, ...] = ()
    array: ArrayRecord | None = None
    try:
        jobs = queued_jobs(
            launch,
            project=name.project,
            user=name.user,
            ulid=name.ulid,
            at=waiting.entry.modified_at,
            known_types=_known_types(draft, rules),
        )
        if rules.quota is not None:
            requests = [job.request for job in jobs]
            problems += limit_problems(rules.quota, name.project, name.user, launch, requests)
            jobs = tuple(with_limit(job, rules.quota) for job in jobs)
        array = queued_array(launch, jobs[0])
    except SpecError as error:
        problems += error.problems
    active = {job.id: draft.jobs.get(job.id) or draft.arrays.get(job.id) for job in jobs}
    there = [job.id for job in jobs if active[job.id] is not None or job.id in ended]
    of_others = {*taken, *(one for one in there if _is_of_another(active[one], waiting))}
    is_known = bool(body.idempotency_key) and len(there) == len(launch.jobs) and not of_others
    problems += [f"there is a job {one} already" for one in there if not is_known]
    for one in dict.fromkeys((job_id(launch.name, name.ulid), *active)):
        if one not in there and any(_is_of_another(job, waiting) for job in holders(one)):
            problems.append(f"there is a launch or job {one} already")
    if any(job.after for job in jobs) and not is_known:
        if is_on_its_way(draft, jobs):
            return False
        try:
            jobs = joining(draft, jobs, awaited)
        except SpecError as error:
            problems += error.problems
    if not is_known:
        asked = dict.fromkeys(each for job in jobs for each in job.secrets)
        problems += rules.options.secrets.problems(name.project, asked)
        problems += _too_wordy(draft, name.user, jobs, array, rules) or _too_large(jobs)
    if problems:
        refuse(draft, waiting, problems)
        return True
    if array is not None and not is_known:
        draft.add_array(array)
    for job in jobs if array is None and not is_known else ():
        draft.add(job)
    accept(
        draft, waiting, launch=job_id(launch.name, name.ulid), jobs=tuple(job.id for job in jobs)
    )
    return True


def _is_of_another(active: JobRecord | ArrayRecord | None, waiting: Waiting) -> bool:
    """Whether an active job or array of this id belongs to another request."""
    if active is None:
        return False
    job = active.each if isinstance(active, ArrayRecord) else active
    is_same = is_same_request(waiting.name, user=job.user, ulid=job.ulid)
    return job.project != waiting.name.project or not is_same


def _too_wordy(
    draft: Draft,
    user: str,
    jobs: Sequence[JobRecord],
    array: ArrayRecord | None,
    rules: Rules,
) -> list[str]:
    """Return a problem if `jobs` take several places each and their user has fewer left."""
    if rules.quota is None:
        return []
    places = sum(map(places_of, jobs)) if array is None else places_of_array(array)
    limit = rules.quota.scheduler.max_queued_per_user
    held = draft.queued[user]
    if places == 1 or places == len(jobs) or held + places <= limit:
        return []
    return [
        f"jobs: they take {places} places in the queue, {user} has {held}, and"
        f" max_queued_per_user allows {limit}: a job takes one more for each"
        f" {PLACE_CHARACTERS:,} characters of its hosts, labels, secrets and dependencies"
    ]


def _too_large(jobs: Iterable[JobRecord]) -> list[str]:
    """Return a problem for each of `jobs` whose record is too large for root."""
    sizes = {job.name: len(encode(as_kept(job))) for job in jobs}
    return [
        f"jobs.{name}: what the bastion has to keep of it is {size} bytes; at most {MAX_JOB_BYTES}:"
        " ask for fewer secrets, dependencies or labels"
        for name, size in sizes.items()
        if size > MAX_JOB_BYTES
    ]


def _launch_problems(draft: Draft, waiting: Waiting, launch: Launch, rules: Rules) -> list[str]:
    name = waiting.name
    if launch.project and launch.project != name.project:
        return [
            f"project: the launch says {launch.project!r}, but was put in the inbox of"
            f" {name.project!r}"
        ]
    if launch.code is not None and not isinstance(launch.code, CodeRef):
        return [f"code: {type(launch.code).__name__} was not sent; submit with bastion launch"]
    problems = rules.notifications.problems_of(launch.tells)
    problems += python_problems(launch.python, launch.code)
    problems += unknown_names(launch.where, rules.pools, draft.machines.values())
    problems += _too_patient(launch, rules.options.max_grace_s)
    if problems:
        return problems
    active = max(len(draft.jobs) + len(draft.arrays), draft.queued.total())
    if active + len(launch.jobs) > MAX_ACTIVE_JOBS:
        return [
            f"there are {active} active jobs; with these {len(launch.jobs)} it would be"
            f" more than the {MAX_ACTIVE_JOBS} that one bastion handles"
        ]
    assert rules.quota is not None
    limit = rules.quota.scheduler.max_queued_per_user
    queued = draft.queued[name.user]
    if queued + len(launch.jobs) > limit:
        return [
            f"{name.user} has {queued} jobs in the queue; with these {len(launch.jobs)} it would be"
            f" more than the {limit} that max_queued_per_user allows"
        ]
    return []


def _too_patient(launch: Launch, max_grace_s: float) -> list[str]:
    """Return the grace periods that the quota file does not allow: none is silently shortened."""
    asked = dict.fromkeys(job.grace_s for job in launch.jobs if job.grace_s is not None)
    return [
        f"grace: {text_of_seconds(grace_s)} is longer than the {text_of_seconds(max_grace_s)} that"
        " max_grace_s allows"
        for grace_s in asked
        if grace_s > max_grace_s
    ]


def _known_types(draft: Draft, rules: Rules) -> set[str]:
    """Return the existing resource types; without a configured pool, also those that may come."""
    here = {kind for pool in rules.pools.values() for kind in pool.resources.types()}
    here |= {kind for machine in draft.machines.values() for kind in machine.resources.types()}
    under_quota = rules.quota.types if rules.quota is not None else ()
    return {*here, *under_quota, *(() if rules.pools else resource_types())}


def _follow(draft: Draft, waiting: Waiting, targets: tuple[str, ...]) -> None:
    for job in targets_of(draft, waiting.name.project, targets).jobs:
        if job.attempt is None:
            continue
        machines = {place.machine for _, _, place, s in job.attempt.each_host() if not s.drained}
        for machine in sorted(machines & draft.machines.keys()):
            if draft.machines[machine].life:
                draft.instruct(machine, Follow(project=job.project, job=job.id))


def _change(
    draft: Draft,
    waiting: Waiting,
    body: JobsRequest | UpdateRequest,
    targets: Sequence[str],
    rules: Rules,
) -> bool:
    assert rules.quota is not None
    name = waiting.name
    aim = targets_of(draft, name.project, targets)
    if aim.unknown and draft.now - waiting.entry.modified_at < UNKNOWN_JOB_WAIT_S:
        return False
    problems = [f"{target}: no such active job in project {name.project}" for target in aim.unknown]
    problems += aim.problems
    events: list[tuple[JobRecord, Event]] = []
    passed: dict[str, str] = {}
    for job in aim.jobs:
        event = _event(waiting, body, job, rules)
        problem = _obstacle(draft, job, event, waiting, rules) or _too_long(job, body, rules)
        if problem and job.task is not None:
            passed[job.launch] = problem
        elif problem:
            problems.append(problem)
        else:
            events.append((job, event))
    moved = {job.launch for job, _ in events}
    for aimed in aim.arrays:
        each = aimed.array.each
        problem = ownership_problem(name, each, rules.quota) or obstacle(
            aimed, name.verb, moves=each.id in moved, passed=passed.get(each.id, "")
        )
        problem = problem or _too_long(each, body, rules)
        problem = problem or _too_split(draft, aimed, waiting, body, rules)
        problems += [problem] if problem else []
    if problems:
        refuse(draft, waiting, problems)
        return True
    for job, event in events:
        draft.apply(job.id, event)
    for aimed in aim.arrays:
        change(draft, aimed, name.verb, body, name.user)
    draft.is_scheduling = draft.is_scheduling or bool(events or aim.arrays)
    accept(
        draft,
        waiting,
        jobs=[*(job.id for job in aim.jobs if job.task is None), *(a.target for a in aim.arrays)],
    )
    return True


def _too_split(
    draft: Draft, aimed: Aimed, waiting: Waiting, body: JobsRequest | UpdateRequest, rules: Rules
) -> str:
    """Return a problem if the tasks of an array would be in more ranges than root can hold."""
    assert rules.quota is not None
    before = draft.arrays[aimed.array.id]
    after = changed(draft, aimed, waiting.name.verb, body, waiting.name.user)
    more = places_of_array(after) - places_of_array(before)
    user = before.each.user
    held, limit = draft.queued[user], rules.quota.scheduler.max_queued_per_user
    if more <= 0 or held + more <= limit:
        return ""
    return (
        f"{aimed.target}: its tasks would lie in so many ranges that {user} takes {held + more}"
        f" places in the queue, and max_queued_per_user allows {limit}: name tasks that follow each"
        " other, or the whole array"
    )


def _event(
    waiting: Waiting, body: JobsRequest | UpdateRequest, job: JobRecord, rules: Rules
) -> Event:
    user = waiting.name.user
    if isinstance(body, UpdateRequest):
        return Updated(priority=body.priority, max_runtime_s=body.max_runtime_s)
    match waiting.name.verb:
        case "hold":
            return HeldBack(by=user)
        case "release":
            return Released(by=user)
        case _:
            return CancelWanted(by=user, grace_s=grace_s(job, rules.options))


def _obstacle(draft: Draft, job: JobRecord, event: Event, waiting: Waiting, rules: Rules) -> str:
    """Return why `event` is not possible for `job`, or an empty string."""
    if not draft.can(job.id, event):
        if waiting.name.verb == "hold":
            return f"{job.id}: is {job.phase}, and only a waiting job can be held"
        return f"{job.id}: is {job.phase}; {waiting.name.verb} is not possible any more"
    if isinstance(event, Released) and not (job.held or job.kept):
        return f"{job.id}: is not held"
    assert rules.quota is not None
    return ownership_problem(waiting.name, job, rules.quota)


def _too_long(job: JobRecord, body: JobsRequest | UpdateRequest, rules: Rules) -> str:
    """Return why the limit that `body` sets is above what the owner of `job` can request."""
    if not isinstance(body, UpdateRequest):
        return ""
    assert rules.quota is not None
    problem = runtime_problem(rules.quota, job.project, job.user, body.max_runtime_s)
    return f"{job.id}.{problem}" if problem else ""
