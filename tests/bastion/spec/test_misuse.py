"""Arguments that a spec does not accept: each error has ours, and an example."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import bastion
from bastion import Array, Choice, Job, Process, SpecError, Sweep, Where

if TYPE_CHECKING:
    from collections.abc import Callable

anything: Any = bastion
"""The same names, for arguments that a type checker would refuse."""
TRAIN = Process(["true"])


def refused(make: Callable[[], object]) -> SpecError:
    """Return the error that `make` raises."""
    with pytest.raises(SpecError) as caught:
        make()
    return caught.value


@pytest.mark.parametrize(
    ("make", "meant"),
    [
        (
            lambda: anything.Job(command="python3 train.py"),
            "command: Job takes no such argument; write"
            " processes=[Process(['python3', 'train.py'])]",
        ),
        (
            lambda: anything.Job(cmd="a && b"),
            "cmd: Job takes no such argument; write processes=[Process('a && b', shell=True)]",
        ),
        (
            lambda: anything.Launch(name="x", run=["a", "b"]),
            "run: Launch takes no such argument; write jobs=[Job(processes=[Process(['a', 'b'])])]",
        ),
        (
            lambda: anything.Process(["a"], gpus_per_node=2),
            "gpus_per_node: Process takes no such argument; write resources=Resources(gpu=2)",
        ),
        (
            lambda: anything.Job(processes=[TRAIN], h100=2),
            "h100: Job takes no such argument; write"
            " processes=[Process(resources=Resources(h100=2))]",
        ),
        (
            lambda: anything.Process(["a"], num_nodes=2),
            "num_nodes: Process takes no such argument; write Job(replicas=2)",
        ),
        (
            lambda: anything.Job(processes=[TRAIN], pool="a"),
            "pool: Job takes no such argument; write Launch(where=Where(pool='a'))",
        ),
        (
            lambda: anything.Launch(name="x", jobs=[Job(processes=[TRAIN])], docker="a"),
            "docker: Launch takes no such argument; write"
            " code=Image('registry.example/team/train:1.0')",
        ),
        (
            lambda: anything.Launch(name="x", jobs=[Job(processes=[TRAIN])], priority=1),
            "priority: Launch takes no such argument; write jobs=[Job(priority=1)]",
        ),
        (
            lambda: anything.Job(processes=[TRAIN], prioritiy=1),
            "prioritiy: Job takes no such argument; did you mean priority?",
        ),
        (
            lambda: anything.Job(processes=[TRAIN], timeout="2h"),
            "timeout: Job takes no such argument; did you mean max_runtime?",
        ),
        (
            lambda: anything.Launch(name="x", tasks=3),
            "tasks: Launch takes no such argument; did you mean jobs or array?",
        ),
        (lambda: anything.Array("0-9", limit=2), "limit: Array takes no such argument; did you"),
        (lambda: anything.Sweep(lr=[1]), "lr: Sweep takes no such argument; write grid={'lr': [.."),
        (lambda: anything.PythonEnv(requirements="x"), "requirements: PythonEnv takes no such"),
        (lambda: anything.Uniform(min=0, max=1), "min: Uniform takes no such argument; did you"),
        (
            lambda: anything.Job(),
            "processes: is missing; what each replica runs, as processes=[Process(",
        ),
        (
            lambda: anything.Launch(),
            "name: is missing; the name of the launch, as name='train'; jobs: is",
        ),
        (lambda: anything.Array(), "tasks: is missing; the indices, as '0-99', or how many tasks"),
        (
            lambda: anything.Job("train", [TRAIN]),
            "'train', list(...): Job takes no argument without",
        ),
        (lambda: anything.Process("a", "b"), "'b': Process takes one argument without its name"),
        (
            lambda: anything.Process(["a"], command=["a"]),
            "command: given twice, by its place and by its",
        ),
        (
            lambda: anything.Resources("h100"),
            "'h100': Resources takes no argument without its name",
        ),
    ],
)
def test_a_misfit_argument_is_told_with_what_was_meant(
    make: Callable[[], object], meant: str
) -> None:
    """This covers words of other systems and of our values, misspellings, and missing arguments."""
    assert str(refused(make)).startswith(meant)


def test_a_word_without_a_meaning_is_told_with_what_is_allowed() -> None:
    """The hint has all arguments and an example, unless everything is understood."""
    lost = refused(lambda: anything.Where(colour="red"))
    assert str(lost) == "colour: Where takes no such argument"
    assert lost.hint == (
        "Where takes cluster, shard, pool, hostnames, labels, exclusive, same;"
        " as Where(pool='a100')"
    )
    understood = refused(lambda: anything.Choice(values=[1]))
    assert understood.hint == "as Choice(['adam', 'sgd'])"
    assert understood.__notes__ == [f"hint: {understood.hint}"]


def test_what_was_meant_for_a_missing_argument_is_told_once() -> None:
    """`processes` is not called missing beside the command that was meant for it."""
    assert str(refused(lambda: anything.Job(command="true"))).count("processes") == 1


def test_no_error_of_python_stands_beside_it() -> None:
    """Only our error is printed."""
    shown = "".join(traceback.format_exception(refused(lambda: anything.Job(command="true"))))
    assert "TypeError" not in shown
    assert "another exception" not in shown


def test_an_error_within_a_value_stays_what_it_is() -> None:
    """A TypeError in the check of a field is not treated as a wrong argument."""

    def broken(at: int) -> int:
        raise TypeError(f"a mistake of the user's own at {at}")

    indices: Iterator[int] = map(broken, range(3))
    with pytest.raises(TypeError, match="a mistake of the user's own"):
        Array(indices)
    assert str(refused(lambda: Choice(of=[]))) == "of: has no values; give at least one"
    assert Where(pool="a") == Where(pool="a")
    assert Sweep(grid={"lr": [1]}).count == 1
