"""Arguments that a client's method does not accept: each error names ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bastion import Admin, Client, Job, Launch, LaunchHandle, Process, SpecError
from bastion.client.submit.resubmit import changed
from bastion.spec import Indices
from bastion.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

LAUNCH = Launch(name="x", jobs=[Job(processes=[Process(["true"])])])
ANY: Any = Client
client: Any = Client(store=MemoryStore(lambda: 0.0), user="ann")
HANDLE = LaunchHandle(client, launch="x-1", project="p", jobs=("x-1",))


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: ANY(bucket="b"), "bucket: Client takes no such argument; did you mean root?"),
        (lambda: ANY("b", "ann"), "'ann': Client takes one argument without its name"),
        (
            lambda: client.launch(LAUNCH, gpus=1),
            "gpus: launch takes no such argument; write Process(resources=Resources(gpu=1))",
        ),
        (
            lambda: client.launch(["true"], array=4),
            "array: launch takes no such argument; write Launch(array=Array(4))",
        ),
        (
            lambda: client.launch(["true"], sweep={"lr": [0.1]}),
            "sweep: launch takes no such argument;"
            " write Launch(sweep=Sweep(grid={'lr': [0.1, 0.01]}))",
        ),
        (
            lambda: client.launch(LAUNCH, timeout=1),
            "timeout: launch takes no such argument; did you mean timeout_s?",
        ),
        (
            lambda: client.launch(),
            "launch: is missing; what to submit: a Launch, or the path of its TOML file",
        ),
        (lambda: client.cancel(job="x"), "job: cancel takes no such argument; write cancel('x')"),
        (
            lambda: client.logs("x", tail=3),
            "tail: logs takes no such argument; write wanted=Wanted(tail=3)",
        ),
        (
            lambda: client.jobs(state="running"),
            "state: jobs takes no such argument; did you mean states?",
        ),
        (lambda: client.why(), "name: is missing; the name or the id of a job"),
        (lambda: client.status("x"), "'x': status takes no argument without its name"),
        (
            lambda: LaunchHandle(client, launch="x", project="p", jobs=()).wait(limit=1),  # type: ignore[call-arg]
            "limit: wait takes no such argument; did you mean timeout_s?",
        ),
        (lambda: Admin(bucket="b"), "bucket: Admin takes no such argument; did you mean root?"),  # type: ignore[call-arg]
    ],
)
def test_a_misfit_argument_is_told_with_what_was_meant(
    call: Callable[[], object], meant: str
) -> None:
    """This covers words of other clients and of our values, and missing arguments."""
    with pytest.raises(SpecError) as caught:
        call()
    assert str(caught.value) == meant


def test_the_hint_has_what_a_method_takes() -> None:
    """Positional names are shown with their star."""
    with pytest.raises(SpecError) as caught:
        client.cancel("x", force=True)
    assert str(caught.value) == "force: cancel takes no such argument"
    assert caught.value.hint == "cancel takes *names, project"


@pytest.mark.parametrize(
    ("call", "told", "hint"),
    [
        (
            lambda: client.spec(HANDLE),
            "LaunchHandle(...) is not the name of a job",
            "it is called 'x-1'",
        ),
        (lambda: client.why(7), "7 is not the name of a job, nor a list of names", ""),
        (lambda: ANY(7), "root: 7 is not a URL, nor the path of a folder", ""),
        (lambda: client.wait(7), "7 is not the name of a job, nor a list of names", ""),
        (lambda: client.use("x"), "job: 'x' is not a job; give client.job('x')", ""),
        (lambda: client.jobs(states=["done"]), "states: 'done' is unknown, allowed are", ""),
        (lambda: client.jobs(states="runing"), "states: 'runing' is unknown, allowed are", ""),
    ],
)
def test_a_value_of_another_kind_is_told_with_what_it_is(
    call: Callable[[], object], told: str, hint: str
) -> None:
    """A handle in place of a name, a name in place of a job, an unknown state."""
    with pytest.raises(SpecError) as caught:
        call()
    assert str(caught.value).startswith(told)
    assert caught.value.hint.startswith(hint)


def test_variables_that_are_no_table_are_told() -> None:
    """`rerun(..., env="A=1")` has no mapping."""
    with pytest.raises(SpecError, match=r"env: 'A=1' is not a table of \{name: value\}"):
        changed(LAUNCH, priority=None, env="A=1", tasks=Indices())  # type: ignore[arg-type]
