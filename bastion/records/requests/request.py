"""The bodies of users' requests in the inbox, and the answers to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bastion.errors import SpecError
from bastion.job import PastAttempt
from bastion.records.requests.machine_request import (
    CheckRequest,
    DrainRequest,
    MachinesRequest,
    WarmRequest,
)
from bastion.scheduler.reasons.machine_report import MachineReport
from bastion.spec.indices import Indices
from bastion.spec.launch import Launch
from bastion.spec.request import Request
from bastion.spec.task import tasks_of_id
from bastion.value import field, value
from quota.pattern import pattern

MAX_ID = 200
"""Maximum characters of a launch's id: a name, a dash and a suffix are well below."""
MAX_TARGETS = 1000
"""Targets per request: each may cost a lookup in the bucket."""
MAX_TARGET_CHARACTERS = 210
"""Characters per target: a launch's id and some tasks."""
MAX_TARGET_RANGES = 10_000
"""Ranges of tasks in all targets of a request together."""

MAX_ARGUMENTS = 256
"""Per command: root holds it until its machine has been told."""
MAX_ARGUMENT_BYTES = 8 << 10
"""Per command, all arguments together."""
MAX_EXEC_S = 7 * 86400.0

_DIGEST = pattern(r"[0-9a-f]{64}")


@value
class LaunchRequest:
    """Submit this launch. The client has looked up its instance types."""

    schema: Literal[1] = 1
    launch: Launch
    idempotency_key: str = ""
    origin: str = ""
    """Digest of the `Origin` that the client stored; empty if there is none."""
    again_of: str = ""
    """The launch that this one repeats."""

    def __post_init__(self) -> None:
        problems = []
        if self.origin and not _DIGEST.fullmatch(self.origin):
            problems.append(f"origin: {self.origin!r} is not 64 lowercase hexadecimal digits")
        if len(self.idempotency_key) > MAX_ID:
            length = len(self.idempotency_key)
            problems.append(f"idempotency_key: {length} characters; at most {MAX_ID}")
        if len(self.again_of) > MAX_ID:
            problems.append(f"again_of: {len(self.again_of)} characters; at most {MAX_ID}")
        _check(problems)


@value
class SpecRecord:
    """The content of `spec.json`: a launch, checked and normalised; a function of its request."""

    schema: Literal[1] = 1
    id: str
    project: str
    user: str
    ulid: str
    launch: Launch
    origin: str = ""
    """Digest of the `Origin` that was stored with it; empty if there is none."""
    again_of: str = ""
    """The launch that this one repeats."""


@value
class JobsRequest:
    """Apply the verb in the request's name (`cancel`, `hold`, `release`) to these targets."""

    schema: Literal[1] = 1
    targets: tuple[str, ...]
    """
    Ids of jobs, or of launches for all of their jobs; `train-0123456789.0-4,9` for tasks of an
    array.
    """

    def __post_init__(self) -> None:
        _check(_target_problems(self.targets))


@value
class UpdateRequest:
    """Change a queued or running job's fields that may change."""

    schema: Literal[1] = 1
    targets: tuple[str, ...]
    priority: int | None = None
    max_runtime_s: float | None = None

    def __post_init__(self) -> None:
        problems = _target_problems(self.targets)
        if self.priority is None and self.max_runtime_s is None:
            problems.append("nothing to change: give priority or max_runtime_s")
        if self.priority is not None and not 1 <= self.priority <= 5:
            problems.append(f"priority: {self.priority} is not allowed; 1 (highest) to 5")
        if self.max_runtime_s is not None and not 0 <= self.max_runtime_s < float("inf"):
            given = self.max_runtime_s
            problems.append(f"max_runtime_s: {given} is not allowed; 0 or more seconds")
        _check(problems)


@value
class FollowRequest:
    """Flush the logs of these jobs at once: a user reads them now."""

    schema: Literal[1] = 1
    targets: tuple[str, ...]

    def __post_init__(self) -> None:
        _check(_target_problems(self.targets))


@value
class ExecRequest:
    """Run a command beside a job's processes, on the machine of one of its hosts."""

    schema: Literal[1] = 1
    job: str
    """The id of a job, or of one task of an array."""
    argv: tuple[str, ...]
    replica: int = 0
    host: int = 0
    process: int = 0
    """Index of the process whose variables and folder the command gets."""
    max_runtime_s: float = 3600.0

    def __post_init__(self) -> None:
        problems = []
        if len(self.job) > MAX_TARGET_CHARACTERS:
            problems.append(f"job: {len(self.job)} characters; at most {MAX_TARGET_CHARACTERS}")
        size = sum(len(each.encode()) for each in self.argv)
        if not self.argv or not self.argv[0]:
            problems.append("argv: names no program")
        if len(self.argv) > MAX_ARGUMENTS or size > MAX_ARGUMENT_BYTES:
            problems.append(
                f"argv: {len(self.argv)} arguments, {size} bytes; at most {MAX_ARGUMENTS} and"
                f" {MAX_ARGUMENT_BYTES}: send a file with the job's code and run that"
            )
        if any("\0" in each for each in self.argv):
            problems.append("argv: an argument holds a zero byte, which no program can be given")
        for name in ("replica", "host", "process"):
            if not 0 <= getattr(self, name) < 10**6:
                problems.append(f"{name}: {getattr(self, name)} is not allowed; 0 or more")
        if not 0 < self.max_runtime_s <= MAX_EXEC_S:
            given = self.max_runtime_s
            problems.append(f"max_runtime_s: {given} is not allowed; up to {MAX_EXEC_S:g} seconds")
        _check(problems)


def _target_problems(targets: tuple[str, ...]) -> list[str]:
    if not 1 <= len(targets) <= MAX_TARGETS:
        return [f"targets: {len(targets)} is not allowed; 1 to {MAX_TARGETS} jobs or launches"]
    longest = max(map(len, targets))
    if longest > MAX_TARGET_CHARACTERS:
        return [f"targets: {longest} characters; at most {MAX_TARGET_CHARACTERS} each"]
    ranges = 0
    for target in targets:
        named = tasks_of_id(target)
        ranges += 1 if named is None else len(named[1].pairs)
        if ranges > MAX_TARGET_RANGES:
            return [
                f"targets: name more than {MAX_TARGET_RANGES} ranges of tasks, the most allowed"
            ]
    return []


def _check(problems: list[str]) -> None:
    if problems:
        raise SpecError(*problems)


AdminBody = MachinesRequest | DrainRequest | CheckRequest | WarmRequest
Body = LaunchRequest | JobsRequest | UpdateRequest | FollowRequest | ExecRequest | AdminBody

ADMIN_BODIES: dict[str, type[AdminBody]] = {
    "cordon": MachinesRequest,
    "uncordon": MachinesRequest,
    "drain": DrainRequest,
    "check": CheckRequest,
    "warm": WarmRequest,
}
"""By verb, those that come through the inbox of admins alone."""

BODIES: dict[str, type[Body]] = {
    "launch": LaunchRequest,
    "cancel": JobsRequest,
    "hold": JobsRequest,
    "release": JobsRequest,
    "update": UpdateRequest,
    "follow": FollowRequest,
    "exec": ExecRequest,
    **ADMIN_BODIES,
}


@value
class Answer:
    """The answer to one request: accepted as these jobs, or every problem it had."""

    schema: Literal[1] = 1
    ulid: str
    verb: str
    accepted: bool
    launch: str = ""
    jobs: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    machines: tuple[MachineReport, ...] = ()
    """For a launch that may not wait: the machines, and why it does not start on any of them."""
    at: float = 0.0
    """Time of the commit that decided it, in the store's seconds."""


@value
class Result:
    """The final record of a job, kept after machines, bastion and job are gone."""

    schema: Literal[1] = 1
    id: str
    project: str
    user: str
    launch: str
    name: str
    outcome: str
    text: str
    code: int | None = None
    submitted_at: float
    ended_at: float
    submitted: str = ""
    """`submitted_at` as ISO-8601, for those that read the record with `cat`."""
    ended: str = ""
    attempts: int = 0
    preemptions: int = 0
    failures: int = 0
    past: tuple[PastAttempt, ...] = ()
    """Every attempt, oldest first."""
    ulid: str = ""
    """ULID of its launch request."""
    task: int | None = None
    """Index of the task, if the launch is an array."""
    request: Request = Request()
    """The resources it asked for."""
    report: Mapping[str, float] = field(default_factory=dict)
    """The numbers that it reported last."""
    tasks: Mapping[str, Indices] = field(default_factory=dict)
    """For an array: its tasks by the kind of their outcome, including those that never started."""
