"""The output of an array's tasks: one after the other, and live."""

from __future__ import annotations

from io import StringIO

import pytest

from bastion.client import Client, LaunchHandle, Wanted
from bastion.errors import NotFoundError, SpecError
from bastion.spec import Array, Job, Launch, Process
from bastion.store.memory import MemoryStore
from tests.rigs.scripted_bastion import (
    Clock,
    ScriptedBastion,
    end,
    print_log,
    publish,
    row,
    world,
)


def launched(tasks: str) -> tuple[LaunchHandle, Client, MemoryStore, Clock]:
    """Return an accepted array of which no task has started."""
    store, clock = world()
    ScriptedBastion(store, clock)
    client = Client("memory:", user="ada", store=store, clock=clock)
    job = Job(processes=[Process(["true"])])
    handle = client.launch(Launch(name="grid", jobs=[job], array=Array(tasks)))
    return handle, client, store, clock


def show(store: MemoryStore, array: str, *, running: int, ended: str, waiting: str = "") -> None:
    """Publish an array of which one task runs."""
    task = row(f"{array}.{running}", state="running", launch=array, task=running, attempt=1)
    view = {"id": array, "project": "blue", "user": "ada", "state": "running", "phase": "running"}
    counts = {"counts": {"running": 1}, "waiting": waiting, "ended": {"succeeded": ended}}
    publish(store, "queue", {"jobs": [task], "arrays": [view | counts]})


def test_an_array_has_printed_what_its_tasks_have() -> None:
    """It is in task order; an unfinished line is not moved behind the next one."""
    handle, client, store, _ = launched("0-2")
    show(store, handle.id, running=1, ended="0", waiting="2")
    print_log(store, f"{handle.id}.0", b"zero")
    print_log(store, f"{handle.id}.1", b"one\n")
    end(store, f"{handle.id}.0", launch=handle.id)
    assert [chunk.data for chunk in client.logs("grid")] == [b"zero", b"one\n"]
    with pytest.raises(NotFoundError, match="has no attempt 7; it has 1"):
        client.logs("grid", Wanted(attempt=7))


def test_what_is_followed_begins_with_the_tasks_that_have_ended() -> None:
    """Running tasks follow live, until they have ended too."""
    handle, client, store, clock = launched("0-1")
    show(store, handle.id, running=1, ended="0")
    print_log(store, f"{handle.id}.0", b"zero\n")
    end(store, f"{handle.id}.0", launch=handle.id)
    steps = iter(
        (
            lambda: print_log(store, f"{handle.id}.1", b"one\n"),
            lambda: end(store, f"{handle.id}.1", launch=handle.id),
        )
    )
    clock.on_sleep.append(lambda: next(steps, lambda: None)())
    chunks = [(chunk.job, chunk.data) for chunk in client.logs("grid", follow=True)]
    assert chunks == [(f"{handle.id}.0", b"zero\n"), (f"{handle.id}.1", b"one\n")]


def test_the_handle_of_an_array_is_followed() -> None:
    """Each line names its task, even if nothing is published of it yet."""
    handle, _, store, clock = launched("3-4")
    publish(store, "queue", {"jobs": []})

    def finish() -> None:
        for index in (3, 4):
            print_log(store, f"{handle.id}.{index}", f"line {index}\n".encode())
            end(store, f"{handle.id}.{index}", launch=handle.id)
        end(store, handle.id)

    steps = iter((finish,))
    clock.on_sleep.append(lambda: next(steps, lambda: None)())
    out = StringIO()
    status = handle.follow(out)
    assert out.getvalue() == "3 | line 3\n4 | line 4\n"
    assert status.has_succeeded


def test_no_more_than_a_hundred_tasks_are_followed() -> None:
    """The error says what to do instead, before any wait."""
    handle, *_ = launched("0-199")
    with pytest.raises(
        SpecError, match="200 tasks are active; at most 100 are followed"
    ) as refused:
        handle.follow(StringIO())
    assert refused.value.hint == f"bastion logs {handle.id}.0-99 -f, or bastion wait"
