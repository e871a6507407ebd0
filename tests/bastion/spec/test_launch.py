"""What users write is checked when it is made, and every problem is reported together."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from bastion.errors import SpecError
from bastion.spec import (
    Array,
    BundleRef,
    GitRef,
    ImageRef,
    Job,
    Launch,
    Process,
    PythonEnv,
    Resources,
    Secret,
    Where,
    job_id,
    job_ids,
    request_of,
)
from quota import Amounts
from tests.bastion.spec.problems import problems

ECHO = Process(["echo"])
ANY: Any = Launch


def job(**given: Any) -> Job:
    """Return a job of one process."""
    return Job(processes=(ECHO,), **given)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (
            "python train.py",
            "command: 'python train.py' is one string; give a list of arguments"
            " (['python', 'train.py']), or shell=True for a shell line",
        ),
        ([], "command: [] is not allowed; a list of at least one string"),
        (["a", 1], "command[1]: 1 is not text"),
        (["a\0b"], "command: holds a NUL character, which no program can receive"),
        (["", "x"], "command: its first word is empty; the first word is the program to run"),
        (["x" * 100_001], "command: 100002 bytes is too long; at most 100000"),
    ],
)
def test_a_command_is_a_list(command: object, problem: str) -> None:
    """A command that could not start a program is refused, with what is allowed."""
    with pytest.raises(SpecError) as caught:
        Process(command)  # type: ignore[arg-type]
    assert caught.value.problems == (problem,)


def test_a_shell_line_is_one_string() -> None:
    """With `shell=True` a command is one line for /bin/sh; a list is refused."""
    assert Process("a | b", shell=True).argv == ("/bin/sh", "-c", "a | b")
    assert Process(["a", "b"]).argv == ("a", "b")
    with pytest.raises(SpecError, match="shell=True takes one string, not 2 arguments"):
        Process(["a", "b"], shell=True)


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"1A": "x"}, "env.1A: not the name of a variable (letters, digits, _)"),
        ({"A": "a\0"}, "env.A: 'a\\x00' is not text without NUL"),
        ({"A": 1}, "env.A: 1 is not text"),
        ({"BASTION_X": "1"}, "env.BASTION_X: names that begin with BASTION_ are the bastion's"),
    ],
)
def test_variables_are_checked(env: dict[str, str], problem: str) -> None:
    """A variable that cannot be set, or is ours, is refused by name."""
    assert problems(lambda: Process(["a"], env=env)) == (problem,)
    assert problems(lambda: job(env=env)) == (problem,)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"replicas": 0}, "replicas: 0 is not allowed; 1 to 10000"),
        ({"replicas": -1}, "replicas: -1 is not allowed; 1 to 10000"),
        ({"replicas": 10_001}, "replicas: 10001 is not allowed; 1 to 10000"),
        ({"priority": 0}, "priority: 0 is not allowed; 1 (highest) to 5"),
        ({"priority": 6}, "priority: 6 is not allowed; 1 (highest) to 5"),
        ({"retries": -1}, "retries: -1 is not allowed; 0 to 1000000"),
        (
            {"max_runtime": "8 hours"},
            "max_runtime: '8 hours' is not a duration; allowed: a number and a unit, such as 90s,"
            " 8h or 2d",
        ),
        (
            {"grace": float("nan")},
            "grace: nan is not a duration; allowed: 0 or more seconds",
        ),
        (
            {"retry_backoff": -1},
            "retry_backoff: -1 is not a duration; allowed: 0 or more seconds",
        ),
        (
            {"name": "a b"},
            "name: 'a b' is not a name; allowed: 1 to 63 of A-Z a-z 0-9 . _ @ + -, beginning"
            " and ending with a letter or digit",
        ),
    ],
)
def test_a_job_is_checked(given: dict[str, object], problem: str) -> None:
    """An error in a field of a job has the value and what is allowed."""
    assert problems(job, **given) == (problem,)


@pytest.mark.parametrize(
    ("make", "given", "problem"),
    [
        (Process, {"command": ["run", "\udcff"]}, "command[1]: '\\udcff' is not UTF-8"),
        (Process, {"command": "\udcff", "shell": True}, "command: '\\udcff' is not UTF-8"),
        (Process, {"command": ["a"], "env": {"A": "\udcff"}}, "env.A: '\\udcff' is not UTF-8"),
        (Job, {"processes": [ECHO], "on_end": ["\udcff"]}, "on_end[0]: '\\udcff' is not UTF-8"),
        (Launch, {"name": "a", "jobs": [job()], "description": "\udcff"}, "description: '\\udcff'"),
    ],
)
def test_text_is_utf8(make: object, given: dict[str, object], problem: str) -> None:
    """A name that Python read from a disk may not be text, and could not be passed to a program."""
    assert problems(make, **given)[0].startswith(problem)


def test_every_problem_is_told_at_once() -> None:
    """Three wrong fields are three problems, and a limit above its maximum is one of several."""
    limits = {"hold_on_failure": "3d", "on_end_timeout": "1h", "idle_timeout": "soon"}
    assert problems(job, replicas=0, **limits) == (
        "replicas: 0 is not allowed; 1 to 10000",
        "idle_timeout: 'soon' is not a duration; allowed: a number and a unit, such as 90s, 8h or"
        " 2d",
        "hold_on_failure: 3d is not allowed; at most 1d",
        "on_end_timeout: 1h is not allowed; at most 10m",
    )
    found = problems(Job, processes=(), replicas=0, priority=9)
    assert len(found) == 3
    assert "processes: none given; a replica runs at least one" in found


def test_durations_may_be_text() -> None:
    """`8h` is 28,800 seconds; an omitted value is None."""
    made = job(max_runtime="8h", grace="1m30s", retry_backoff="5s")
    assert (made.max_runtime_s, made.grace_s, made.retry_backoff_s) == (28800.0, 90.0, 5.0)
    assert (job().max_runtime_s, job().grace_s) == (None, None)


@pytest.mark.parametrize(
    ("given", "stops"),
    [
        ({}, False),
        ({"replicas": 2}, True),
        ({"replicas": 2, "on_failure": "continue"}, False),
        ({"on_failure": "stop_others"}, True),
    ],
)
def test_on_failure_by_default(given: dict[str, object], stops: bool) -> None:
    """`stop_others` is the default for several replicas, and can be set for one."""
    assert job(**given).stops_others == stops


def test_a_replica_asks_for_its_processes() -> None:
    """A replica requests the sum of its processes, and a gang that of its replicas."""
    two = Process(["a"], resources=Resources(h100=2, memory="1GiB"))
    made = Job(processes=(two, two, ECHO), replicas=3)
    assert made.per_replica == Amounts({"h100": 4, "memory": 2**31})
    launch = Launch(name="x", jobs=(made,))
    request = request_of(launch, made, per_replica=made.per_replica, hosts=1)
    assert request.units == Amounts({"h100": 12, "memory": 3 * 2**31})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"jobs": ()}, "jobs: 0 is not allowed; 1 to 1000"),
        ({"jobs": (job(), job())}, "jobs: two are called 'main'; names must be unique in a launch"),
        ({"description": "é" * 2049}, "description: longer than 4096 bytes"),
        ({"project": "a/b"}, "project: 'a/b' is not a name"),
        ({"name": "-x"}, "name: '-x' is not a name"),
        ({"python": PythonEnv(), "code": ImageRef(ref="h/x:1")}, "python: an image brings its own"),
    ],
)
def test_a_launch_is_checked(given: dict[str, object], problem: str) -> None:
    """An error in a field of a launch has the value and what is allowed."""
    (found,) = problems(Launch, **{"name": "x", "jobs": (job(),), **given})
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: BundleRef(digest="abc"), "digest: 'abc' is not 64 "),
        (lambda: GitRef(url="https://h/x", commit="abc"), "commit: 'abc' is not a full commit"),
        (lambda: ImageRef(ref=" x"), "ref: ' x' is "),
        (lambda: ImageRef(ref=""), "ref: '' is "),
    ],
)
def test_code_means_the_same_for_ever(make: Callable[[], object], problem: str) -> None:
    """A code reference that could change, or is none, is refused by field and value."""
    with pytest.raises(ValueError, match=problem):
        make()


def test_hostnames_are_a_list() -> None:
    """A single host name is not treated as a list of characters."""
    (problem,) = problems(Where, hostnames="h1")
    assert problem == "where.hostnames: 'h1' is one string; give a list"


@pytest.mark.parametrize(
    ("units", "problem"),
    [
        (0, "resources.h100: 0 is not above zero; leave the type out to ask for none"),
        (-1, "resources.h100: -1 is not above zero; leave the type out to ask for none"),
        (1.5, "resources.h100: 1.5 is not a number of units; allowed: 1, 2, 3, ..."),
        (True, "resources.h100: True is not a number of units; allowed: 1, 2, 3, ..."),
        ("2", "resources.h100: '2' is not a number of units; allowed: 1, 2, 3, ..."),
        (10**16, "resources.h100: more than there can be; at most 1000000000000000"),
    ],
)
def test_units_are_whole_and_above_zero(units: object, problem: str) -> None:
    """A number of units that is not a positive integer is refused."""
    assert problems(Resources, h100=units) == (problem,)


def test_resources_are_values() -> None:
    """Resources compare by their requests, show them, and do not change."""
    two = Resources(h100=2, memory="1GiB")
    assert two == Resources(memory=2**30, h100=2)
    assert hash(two) == hash(Resources(memory=2**30, h100=2))
    assert repr(two) == "Resources(h100=2, memory=1073741824)"
    with pytest.raises(AttributeError, match="frozen"):
        two.amounts = Amounts({})
    assert len(problems(Resources, h100=0, memory="much")) == 2


def test_a_launch_goes_to_another_process() -> None:
    """A pool of workers pickles it, and `copy.deepcopy` is how a program varies one."""
    process = Process(["python3", "a.py"], resources=Resources(h100=2, memory="1GiB"))
    launch = Launch(name="a", jobs=[Job(processes=[process])], array=Array("0-99%10"))
    for same in (pickle.loads(pickle.dumps(launch)), copy.deepcopy(launch)):
        assert same == launch
        assert (same.tasks, same.jobs[0].per_replica) == (launch.tasks, launch.jobs[0].per_replica)
    many = Array(range(0, 1998, 2)).tasks | Array([5_000, 7_000]).tasks
    assert pickle.loads(pickle.dumps(many)) == many


def test_values_are_hashable_where_they_are_keys() -> None:
    """`Where` is a key of the scheduler's groups though it holds a mapping."""
    assert hash(Where(labels={"a": "1"})) == hash(Where(labels={"a": "1"}))
    assert Where(labels={"a": "1"}) != Where(labels={"a": "2"})


def test_ids_are_unique_for_ever() -> None:
    """An id is a name and the random end of the request's ULID; a lone job has the launch's."""
    ulid = "01HF7YAXX0ABCDEFGHJKMNPQRS"
    assert job_id("train", ulid) == "train-ghjkmnpqrs"
    assert job_ids(Launch(name="x", jobs=(job(),)), ulid) == ("x-ghjkmnpqrs",)
    two = Launch(name="x", jobs=(job(name="a"), job(name="b")))
    assert job_ids(two, ulid) == ("x-a-ghjkmnpqrs", "x-b-ghjkmnpqrs")


@pytest.mark.parametrize(
    ("make", "given", "problem"),
    [
        (
            Job,
            {"replicas": "3"},
            "replicas: '3' is not a range; allowed: a whole number, or the fewest and the most,"
            ' as "2-8"',
        ),
        (Job, {"replicas": 2.5}, "replicas: 2.5 is not a whole number or text"),
        (Job, {"replicas": True}, "replicas: True is not a whole number or text"),
        (Job, {"hold": "yes"}, "hold: 'yes' is not True or False"),
        (
            Job,
            {"on_failure": "stop_other"},
            "on_failure: 'stop_other' is unknown, allowed are continue, stop_others,"
            " nearest is stop_others",
        ),
        (Job, {"max_runtime": [8]}, "max_runtime: list(...) is not a number, text or None"),
        (Job, {"processes": ECHO}, "processes: Process(...) is not a list; write it as [...]"),
        (Job, {"processes": ["echo"]}, "processes[0]: 'echo' is not a Process"),
        (Job, {"env": {"A": None}}, "env.A: None is not text"),
        (Job, {"env": {1: "a"}}, "env, the name: 1 is not text"),
        (Job, {"env": ["A=1"]}, "env: list(...) is not a table of {name: value}"),
        (Launch, {"name": "l", "jobs": job()}, "jobs: Job(...) is not a list; write it as [...]"),
        (
            Launch,
            {"name": "l", "jobs": [job()], "when_busy": "fial"},
            "when_busy: 'fial' is unknown, allowed are fail, queue, nearest is fail",
        ),
        (Where, {"exclusive": 1}, "where.exclusive: 1 is not True or False"),
    ],
)
def test_a_field_of_another_type_is_refused(
    make: object, given: dict[str, object], problem: str
) -> None:
    """Python would accept anything, and fail far from the error."""
    if make is Job:
        given = {"processes": [ECHO]} | given
    assert problems(make, **given) == (problem,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"env": {"X": "x" * 140_000}}, "env: 140003 bytes is too long"),
        ({"processes": [Process(["true"], env={"X": "x" * 140_000})]}, "env: 140003 bytes"),
        ({"processes": [Process(["true"])] * 1_001}, "processes: 1001 is not allowed"),
        ({"secrets": [Secret(f"S{n}") for n in range(101)]}, "secrets: 101 is not allowed"),
        ({"retries": 10**30}, "retries"),
    ],
    ids=["env", "env of a process", "processes", "secrets", "retries"],
)
def test_everything_of_a_job_has_a_limit(given: dict[str, object], said: str) -> None:
    """A value that is too large for root or a process is refused with its size."""
    found = problems(Job, **{"processes": (ECHO,), **given})
    assert any(said in problem for problem in found)


def test_a_secrets_name_has_a_length() -> None:
    """The name of a secret lies in root with every job, and is bounded."""
    with pytest.raises(SpecError, match="2000000 characters; at most 100"):
        Secret("N" * 2_000_000)


@pytest.mark.parametrize(
    ("make", "example"),
    [
        (lambda: ANY(name="a", jobs=[job()], array=4), "as Array("),
        (lambda: ANY(name="a", jobs=[job()], sweep={"lr": [1]}), "as Sweep(grid="),
        (lambda: ANY(name="a", jobs=[job()], code="."), "as LocalDir('.')"),
        (lambda: ANY(name="a", jobs=[ECHO]), "as Job(processes="),
        (lambda: Process(["true"], resources={"h100": 1}), "as Resources(h100="),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_a_wrong_type_is_told_how_the_right_one_is_made(
    make: Callable[[], object], example: str
) -> None:
    """The hint is a value that can be pasted."""
    with pytest.raises(SpecError) as caught:
        make()
    assert caught.value.hint.startswith(example)
