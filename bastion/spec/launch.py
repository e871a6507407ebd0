"""A launch, its jobs and their processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from bastion.errors import SpecError
from bastion.spec.after import After, afters, order_problems
from bastion.spec.arrays import template
from bastion.spec.arrays.array import Array
from bastion.spec.arrays.indices import Indices
from bastion.spec.arrays.sweep import Sweep
from bastion.spec.code import Code, CodeRef, is_image
from bastion.spec.names import check_name, job_id
from bastion.spec.notify import Notify, notifies
from bastion.spec.python_env import PythonEnv
from bastion.spec.replicas import Replicas, range_problems, replicas_of, resume_problems
from bastion.spec.resources import Resources
from bastion.spec.secret import MAX_SECRETS, VARIABLE, Secret, secrets_problems
from bastion.spec.values.quantity import seconds_of, text_of_seconds
from bastion.spec.values.spec_value import value
from bastion.spec.values.typed import check_types
from bastion.spec.where import ANYWHERE, Where
from bastion.value import field, replace
from quota.amounts import Amounts

MAX_JOBS = 1_000
"""Per launch: the largest gang."""
MAX_COMMAND_BYTES = 100_000
"""Per process: below the 128 KiB that Linux allows for one argument (MAX_ARG_STRLEN)."""
MAX_ENV_BYTES = 128 << 10
"""
Per process, including its job's variables. Linux allows an argument list of some megabytes, and
every machine that starts a host of a launch reads the spec.
"""
MAX_PROCESSES = 1_000
"""Per replica."""
MAX_RETRIES = 1_000_000
MAX_BACKOFF_S = 3600.0
"""Longest wait before a retry, even after many doublings."""
MAX_HOLD_S = 86400.0
"""Longest `hold_on_failure`: devices that are not inspected within a day are wasted."""
MAX_ON_END_S = 600.0
"""Longest `on_end_timeout`: longer work belongs in a job of its own."""

Sign = Literal["output", "devices", "processor"]
"""A sign that a host is alive: output, use of its devices, CPU use."""
SIGNS: tuple[Sign, ...] = ("output", "devices", "processor")

DURATIONS = (
    "max_runtime",
    "retry_backoff",
    "grace",
    "idle_timeout",
    "hold_on_failure",
    "on_end_timeout",
)
"""Fields of a job that are converted to seconds."""


Alias: TypeAlias = Literal["clusterfudge", "blox"]
"""Another scheduler whose environment variables processes also get."""


@value
class Process:
    """
    One command that runs beside the others of its replica, on the same machine.

    `command` is a list of arguments. A string is a shell line, and is allowed only with
    `shell=True`. `secrets` are read on the machine and are never stored.
    """

    command: Sequence[str] | str = field(kw_only=False)
    shell: bool = False
    resources: Resources = field(default_factory=Resources)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[Secret] = ()

    def __post_init__(self) -> None:
        check_types(self)
        problems = _command_problems(self.command, shell=self.shell)
        problems += _env_problems("env", self.env)
        problems += secrets_problems(self.secrets, self.env)
        if problems:
            raise SpecError(*problems)
        words = (self.command,) if isinstance(self.command, str) else tuple(self.command)
        object.__setattr__(self, "command", words)
        object.__setattr__(self, "env", dict(self.env))
        object.__setattr__(self, "secrets", tuple(self.secrets))

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments that are executed."""
        return ("/bin/sh", "-c", self.command[0]) if self.shell else tuple(self.command)


@value
class Job:
    """
    `replicas` identical replicas of one or more processes; admitted together or not at all.

    With a range, such as `replicas="2-8"`, it is elastic: it starts with as many replicas as
    fit within the range, and every start after a preemption may have a different number.

    An empty `on_failure` means `stop_others` if there is more than one replica. With
    `success="first"` the job succeeds when its first replica does, and the others are then stopped,
    like the workers of a cluster whose head is the first replica. Durations are seconds or text
    (`8h`); `max_runtime` counts from the start of an attempt. `retries` counts only failures: a job
    that was preempted or lost its machine is requeued, unless `resume=False`. `priority` is 1
    (highest) to 5. With `borrow=False` it starts only within its project's share, and no other
    project preempts it. `after` lists its dependencies: a job or a launch by id, or a job of the
    same launch by name. `secrets` go to every process; `aliases` names other schedulers whose
    variables its processes also get.

    A host without any of its `signs_of_life` for `idle_timeout` counts as hung: its stacks are
    written to its log, and it fails or, with `on_idle="report"`, its users are notified. If no
    retry is left, a failed host keeps its machine and devices for `hold_on_failure`, for
    inspection. `on_end` runs on every host once its processes are dead, however they ended.
    """

    name: str = "main"
    replicas: int | str = 1
    processes: Sequence[Process]
    instance_type: str = ""
    on_failure: Literal["", "stop_others", "continue"] = ""
    scope: Literal["job", "launch"] = "job"
    success: Literal["all", "first"] = "all"
    max_runtime: float | str | None = None
    retries: int = 0
    retry_backoff: float | str = 30.0
    resume: bool = True
    priority: int = 3
    borrow: bool = True
    grace: float | str | None = None
    hold: bool = False
    after: Sequence[After | str] = ()
    idle_timeout: float | str | None = None
    on_idle: Literal["fail", "report"] = "fail"
    signs_of_life: Sequence[Sign] = SIGNS
    hold_on_failure: float | str | None = None
    on_end: Sequence[str] = ()
    on_end_timeout: float | str = 60.0
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[Secret] = ()
    aliases: Sequence[Alias] = ()

    def __post_init__(self) -> None:
        check_types(self)
        put = object.__setattr__
        put(self, "processes", tuple(self.processes))
        put(self, "env", dict(self.env))
        put(self, "secrets", tuple(self.secrets))
        put(self, "aliases", tuple(dict.fromkeys(self.aliases)))
        problems = [*check_name("name", self.name), *_env_problems("env", self.env)]
        problems += self._count_problems()
        asked = [*self.secrets, *(each for one in self.processes for each in one.secrets)]
        problems += secrets_problems(asked, self.env)
        for process in self.processes:
            problems += secrets_problems(self.secrets, process.env)
        problems += self._size_problems()
        put(self, "signs_of_life", tuple(dict.fromkeys(self.signs_of_life)))
        put(self, "on_end", tuple(self.on_end))
        for name in DURATIONS:
            written = getattr(self, name)
            try:
                put(self, name, None if written is None else seconds_of(name, written))
            except SpecError as error:
                put(self, name, None)  # no further problem with it is reported
                problems.extend(error.problems)
        try:
            put(self, "after", afters(self.after))
        except SpecError as error:
            problems.extend(error.problems)
        problems += self._end_problems()
        if problems:
            raise SpecError(*problems)

    def _end_problems(self) -> list[str]:
        """Return problems of fields about an attempt's end; durations are already in seconds."""
        problems = _command_problems(self.on_end, field="on_end") if self.on_end else []
        problems += [
            f"{name}: 0 is not allowed; more than 0 seconds"
            for name in ("max_runtime", "idle_timeout")
            if getattr(self, name) == 0
        ]
        if not self.signs_of_life:
            problems.append(f"signs_of_life: none given; any of {', '.join(SIGNS)}")
        limits = {"hold_on_failure": MAX_HOLD_S, "on_end_timeout": MAX_ON_END_S}
        for name, limit_s in limits.items():
            given_s = float(getattr(self, name) or 0.0)
            if given_s > limit_s:
                longest = text_of_seconds(limit_s)
                problems.append(
                    f"{name}: {text_of_seconds(given_s)} is not allowed; at most {longest}"
                )
        return problems

    def _size_problems(self) -> list[str]:
        """Return which fields are too large for root, or for the environment of a process."""
        largest = max((_env_bytes(process.env) for process in self.processes), default=0)
        size = _env_bytes(self.env) + largest
        problems = []
        if size > MAX_ENV_BYTES:
            problems.append(f"env: {size} bytes is too long; at most {MAX_ENV_BYTES} a process")
        secrets = {each.name for each in self.secrets}
        secrets |= {each.name for process in self.processes for each in process.secrets}
        if len(secrets) > MAX_SECRETS:
            problems.append(f"secrets: {len(secrets)} is not allowed; at most {MAX_SECRETS}")
        return problems

    def _count_problems(self) -> list[str]:
        problems = []
        try:
            object.__setattr__(self, "replicas", replicas_of(self.replicas).written)
            problems += resume_problems(self.range, resume=self.resume)
        except SpecError as error:
            problems.extend(error.problems)
        if not self.processes:
            problems.append("processes: none given; a replica runs at least one")
        if not 1 <= self.priority <= 5:
            problems.append(f"priority: {self.priority} is not allowed; 1 (highest) to 5")
        if len(self.processes) > MAX_PROCESSES:
            count = len(self.processes)
            problems.append(f"processes: {count} is not allowed; at most {MAX_PROCESSES}")
        if not 0 <= self.retries <= MAX_RETRIES:
            problems.append(f"retries: {self.retries} is not allowed; 0 to {MAX_RETRIES}")
        return problems

    @property
    def range(self) -> Replicas:
        """The fewest and the most replicas that it runs with."""
        return replicas_of(self.replicas)

    @property
    def max_runtime_s(self) -> float | None:
        """Seconds an attempt may run, or None."""
        return None if self.max_runtime is None else float(self.max_runtime)

    @property
    def retry_backoff_s(self) -> float:
        """Seconds between a failure and the next attempt."""
        return float(self.retry_backoff)

    @property
    def grace_s(self) -> float | None:
        """Seconds between notice and kill, or None for the pool's default."""
        return None if self.grace is None else float(self.grace)

    @property
    def waits_for(self) -> tuple[After, ...]:
        """Its own dependencies, without those of its whole launch."""
        return afters(self.after)

    @property
    def idle_timeout_s(self) -> float | None:
        """Seconds without a sign of life after which a host counts as hung, or None."""
        return None if self.idle_timeout is None else float(self.idle_timeout)

    @property
    def hold_on_failure_s(self) -> float:
        """Seconds that a failed host is kept for inspection; 0: it is not."""
        return float(self.hold_on_failure or 0.0)

    @property
    def on_end_timeout_s(self) -> float:
        """Seconds that `on_end` may take."""
        return float(self.on_end_timeout)

    @property
    def stops_others(self) -> bool:
        """Whether one failed replica stops its siblings."""
        return self.on_failure == "stop_others" or (not self.on_failure and self.range.most > 1)

    @property
    def every_secret(self) -> tuple[Secret, ...]:
        """The secrets of the job and its processes, each name once."""
        asked = [*self.secrets, *(each for one in self.processes for each in one.secrets)]
        as_files = {secret.name for secret in asked if secret.file}
        once = {secret.name: secret for secret in asked}
        return tuple(replace(each, file=name in as_files) for name, each in once.items())

    @property
    def per_replica(self) -> Amounts:
        """The sum of the requests of one replica's processes."""
        return sum((process.resources.amounts for process in self.processes), Amounts({}))


@value
class Launch:
    """
    One submission: its code, its jobs (one gang, unless `together=False`), and where they may run.

    An empty `project` means the user's only project. A launch with `when_busy="fail"` is refused if
    it cannot start in the same cycle. All its jobs wait for the dependencies in `after`. `notify`
    names webhooks that are notified when the state of one of its jobs changes.

    With `array` or `sweep`, its only job runs once per task, independently of the others. `array`
    defines the tasks and how many may run at the same time; `sweep` defines the parameters of each.
    With both, `array` selects tasks of the sweep. Once `max_failures` tasks have failed with no
    retry left, the others are cancelled.
    """

    name: str
    jobs: Sequence[Job]
    project: str = ""
    description: str = ""
    code: CodeRef | Code | None = None
    python: PythonEnv | None = None
    where: Where = ANYWHERE
    when_busy: Literal["queue", "fail"] = "queue"
    together: bool = True
    after: Sequence[After | str] = ()
    notify: Sequence[Notify | str] = ()
    array: Array | None = None
    sweep: Sweep | None = None
    max_failures: int | None = None

    def __post_init__(self) -> None:
        check_types(self)
        object.__setattr__(self, "jobs", tuple(self.jobs))
        problems = check_name("name", self.name)
        if self.project:
            problems += check_name("project", self.project)
        if not 1 <= len(self.jobs) <= MAX_JOBS:
            problems.append(f"jobs: {len(self.jobs)} is not allowed; 1 to {MAX_JOBS}")
        twice = [name for name, n in Counter(job.name for job in self.jobs).items() if n > 1]
        problems += [
            f"jobs: two are called {name!r}; names must be unique in a launch" for name in twice
        ]
        if len(self.description.encode()) > 4096:
            problems.append("description: longer than 4096 bytes")
        if self.python is not None and is_image(self.code):
            problems.append("python: an image brings its own; install what it needs into the image")
        try:
            object.__setattr__(self, "after", afters(self.after))
            problems += self._order_problems()
        except SpecError as error:
            problems.extend(error.problems)
        try:
            object.__setattr__(self, "notify", notifies(self.notify))
        except SpecError as error:
            problems.extend(error.problems)
        if self.max_failures is not None and self.max_failures < 1:
            problems.append(f"max_failures: {self.max_failures} is not allowed; 1 or more")
        if self.array is not None or self.sweep is not None:
            problems += _array_problems(self)
        elif self.max_failures is not None:
            problems.append("max_failures: without array or sweep there are no tasks to count")
        ranges = [job.range for job in self.jobs]
        gang = len(self.jobs) if self.together else 1
        problems += range_problems(ranges, gang=gang, exclusive=self.where.exclusive)
        if problems:
            raise SpecError(*problems)

    def _order_problems(self) -> list[str]:
        jobs = {job.name: job.waits_for for job in self.jobs}
        return order_problems(self.waits_for, jobs, together=self.together)

    @property
    def tells(self) -> tuple[Notify, ...]:
        """The webhooks of its jobs."""
        return notifies(self.notify)

    @property
    def waits_for(self) -> tuple[After, ...]:
        """The dependencies of all its jobs."""
        return afters(self.after)

    @property
    def waits_for_others(self) -> tuple[str, ...]:
        """The ids that it or one of its jobs waits for, without its own jobs."""
        own = {job.name for job in self.jobs}
        asked = [*self.waits_for, *(each for job in self.jobs for each in job.waits_for)]
        return tuple(dict.fromkeys(each.job for each in asked if each.job not in own))

    @property
    def tasks(self) -> Indices | None:
        """The indices of its tasks; None if it is not an array."""
        if self.array is not None:
            return self.array.tasks
        return None if self.sweep is None else Indices([(0, self.sweep.count - 1)])

    @property
    def at_once(self) -> int | None:
        """How many tasks may run at the same time; None: no limit. The value in `array` wins."""
        if self.array is not None and self.array.at_once is not None:
            return self.array.at_once
        return None if self.sweep is None else self.sweep.at_once


def job_ids(launch: Launch, ulid: str) -> tuple[str, ...]:
    """Return the ids of the jobs for the request `ulid`; a single job has the launch's id."""
    if len(launch.jobs) == 1:
        return (job_id(launch.name, ulid),)
    return tuple(job_id(f"{launch.name}-{job.name}", ulid) for job in launch.jobs)


def _array_problems(launch: Launch) -> list[str]:
    word = "array" if launch.array is not None else "sweep"
    problems = []
    if len(launch.jobs) > 1:
        problems.append(f"{word}: the launch has {len(launch.jobs)} jobs; an array is of one")
    if launch.when_busy == "fail":
        problems.append(
            f"when_busy: 'fail' is not possible with {word}: its tasks start as devices become"
            " free;"
            " allowed: 'queue'"
        )
    if launch.sweep is None:
        return problems
    count = launch.sweep.count
    beyond = [] if launch.array is None else list(launch.array.tasks - Indices([(0, count - 1)]))
    if beyond:
        tasks = "0 alone" if count == 1 else f"0 to {count - 1}"
        problems.append(f"array: the sweep has no task {beyond[0]}; its tasks are {tasks}")
    for at, job in enumerate(launch.jobs):
        problems += _sweep_problems(f"jobs.{at}.", job, launch.sweep)
    return problems


def _sweep_problems(path: str, job: Job, sweep: Sweep) -> list[str]:
    """Return problems with filling `job` with the parameters of `sweep`."""
    longest = sweep.longest()
    sizes = {name: template.byte_count(text) for name, text in longest.items()}
    texts = [(f"{path}env.{name}", text) for name, text in job.env.items()]
    texts += [(f"{path}on_end", word) for word in job.on_end]
    problems = []
    for at, process in enumerate(job.processes):
        where = f"{path}processes.{at}."
        words = [(f"{where}command", word) for word in process.command]
        bad = [f"{name}: {each}" for name, w in words for each in template.problems(w, longest)]
        texts += [(f"{where}env.{name}", text) for name, text in process.env.items()]
        if bad:
            problems += bad
            continue
        # Measured first: a thousand times `{x}` is small, and may become large.
        size = sum(template.filled_bytes(word, sizes) + 1 for word in process.command)
        said = _size_problem("command", size, MAX_COMMAND_BYTES)
        if not said:
            whole = [template.filled(word, longest) for word in process.command]
            said = _command_problems(whole[0] if process.shell else whole, shell=process.shell)
        problems += [f"{where}{each}" for each in said]
    wrong = [f"{name}: {each}" for name, text in texts for each in template.problems(text, longest)]
    if wrong:
        return problems + wrong
    size = sum(template.filled_bytes(text, sizes) + 2 for _, text in texts)
    return problems + _size_problem(f"{path}env and on_end, filled", size, MAX_ENV_BYTES)


def _command_problems(
    command: Sequence[str] | str, *, shell: bool = False, field: str = "command"
) -> list[str]:
    if isinstance(command, str) and not shell:
        return [
            f"{field}: {command!r} is one string; give a list of arguments"
            f" ({command.split()!r}), or shell=True for a shell line"
        ]
    parts = (command,) if isinstance(command, str) else tuple(command)
    if shell and len(parts) != 1:
        return [f"{field}: shell=True takes one string, not {len(parts)} arguments"]
    if not parts or not all(isinstance(part, str) for part in parts):
        return [f"{field}: {list(parts)!r} is not allowed; a list of at least one string"]
    if any("\0" in part for part in parts):
        return [f"{field}: holds a NUL character, which no program can receive"]
    if not parts[0].strip():
        return [f"{field}: its first word is empty; the first word is the program to run"]
    size = sum(template.byte_count(part) + 1 for part in parts)
    return _size_problem(field, size, MAX_COMMAND_BYTES)


def _size_problem(field: str, size: int, limit: int) -> list[str]:
    return [f"{field}: {size} bytes is too long; at most {limit}"] if size > limit else []


def _env_bytes(env: Mapping[str, str]) -> int:
    """Return the size of these variables in an environment, in bytes."""
    return sum(
        template.byte_count(name) + template.byte_count(text) + 2
        for name, text in env.items()
        if isinstance(text, str)
    )


def _env_problems(name: str, env: Mapping[str, str]) -> list[str]:
    problems = []
    for variable, text in env.items():
        if not VARIABLE.fullmatch(variable):
            problems.append(f"{name}.{variable}: not the name of a variable (letters, digits, _)")
        elif not isinstance(text, str) or "\0" in text:
            problems.append(f"{name}.{variable}: {text!r} is not text without NUL")
        elif variable.startswith("BASTION_"):
            problems.append(f"{name}.{variable}: names that begin with BASTION_ are the bastion's")
    return problems
