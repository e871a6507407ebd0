"""The API at a prompt and in a notebook: short lines, tables, times, guesses that work."""

from __future__ import annotations

import io
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import bastion
from bastion.client import LaunchHandle
from bastion.client.follow.notebook import Bar, progress
from bastion.client.look.usage import DeviceView, TopView, UsedMachine
from bastion.client.look.views import EventView, LaunchStatus
from bastion.client.look.watch import one_timeout
from bastion.client.status.display import Rows
from bastion.client.status.status_view import ProjectView, StatusView
from bastion.errors import BastionError, NotFoundError, SpecError
from bastion.records.requests.job_request import JobsRequest
from bastion.spec import Array, Job, Launch, Process
from bastion.value import replace
from bundler.code import LocalDir
from quota.amounts import Amounts
from tests.bastion.client.scripted_client import client_of, launch_of
from tests.rigs.scripted_bastion import NOW, end, print_log, publish, row

A, B = "train-0123456789", "eval-0123456789"


def test_one_name_is_a_list_of_one() -> None:
    """A text is never treated as a list of characters."""
    client, store, _, bastion_ = client_of()
    publish(store, "queue", {"jobs": [row(A), row(B)]})
    assert client.cancel("train") == (A,)
    assert client.cancel(["train", "eval"]) == client.cancel("train", "eval") == (A, B)
    assert isinstance(bastion_.taken[-1][1], JobsRequest)
    end(store, A)
    publish(store, "queue", {"jobs": []})
    assert [job.id for job in client.wait("train")] == [A]
    assert [job.id for job in client.wait(["train"])] == [A]


def test_a_handle_or_a_view_stands_for_its_id() -> None:
    """Results of `launch` and `jobs` can be used as names, alone or in a list."""
    client, store, _, _ = client_of()
    publish(store, "queue", {"jobs": [row(A), row(B)]})
    handle = LaunchHandle(client, launch=A, project="vision", jobs=(A,))
    assert client.cancel(handle) == client.cancel([handle]) == (A,)
    assert client.hold(client.jobs()) == (A, B)
    assert client.why(handle).job == client.job(client.job(A)).id == A
    end(store, A)
    publish(store, "queue", {"jobs": []})
    assert [job.id for job in client.wait(handle)] == [A]


def test_jobs_that_were_waited_for_and_tasks_are_shown_as_a_table() -> None:
    """They look like those that `jobs` lists."""
    client, store, _, _ = client_of()
    end(store, A)
    publish(store, "queue", {"jobs": []})
    assert _table(client.wait("train")) == _table(client.jobs(finished=1))
    job = Job(processes=[Process(["true"])])
    array = client.launch(Launch(name="grid", jobs=[job], array=Array("0-1")))
    view = {"id": array.id, "project": "blue", "user": "ada", "state": "queued", "phase": "queued"}
    counts = {"counts": {"queued": 2}, "waiting": "0-1"}
    publish(store, "queue", {"jobs": [], "arrays": [view | counts]})
    assert f"<td>{array.id}.1</td>" in _table(array.tasks)


def _table(rows: object) -> str:
    assert isinstance(rows, Rows)
    return rows._repr_html_()


def test_a_change_of_a_job_that_has_ended_says_so() -> None:
    """It is no error, and its display says why nothing was changed."""
    client, store, _, _ = client_of()
    end(store, A)
    publish(store, "queue", {"jobs": [row(B)]})
    nothing = client.cancel("train")
    assert nothing == ()
    assert repr(nothing) == f"<(); nothing to do: {A} has ended: succeeded>"
    assert repr(client.hold("train", "eval")) == f"<({B!r},); {A} has ended: succeeded>"
    assert repr(client.hold("eval")) == repr((B,))


def test_the_log_of_a_job_is_shown() -> None:
    """A prompt says how to print it, `print` prints it, a notebook shows it, escaped."""
    client, store, _, _ = client_of()
    publish(store, "queue", {"jobs": [row(A, attempt=1)]})
    print_log(store, A, b"one\n<b>two</b>\n")
    printed = client.logs("train")
    assert repr(printed) == f"<what {A} printed: print(...) prints it, and its text is .text>"
    assert str(printed) == printed.text == "one\n<b>two</b>\n"
    assert printed._repr_html_() == "<pre>one\n&lt;b&gt;two&lt;/b&gt;</pre>"
    assert [chunk.text for chunk in printed] == ["one\n<b>two</b>\n"]
    followed = client.logs("train", follow=True)
    assert repr(followed) == (
        f"<what {A} prints, as it comes: for chunk in ...: print(chunk.text, end='')>"
    )


def test_a_record_that_is_called_is_told_what_tells_of_a_job() -> None:
    """It is a property, although others have a function of that name."""
    client, _, _, _ = client_of()
    called: Any = client.record
    with pytest.raises(SpecError, match="not a function") as refused:
        called("train")
    assert "client.job('train') tells of that job" in refused.value.hint
    assert repr(client.record) == (
        "<the record of all that ended: query(record, 'SELECT ...') asks it>"
    )


def test_views_are_one_line_at_a_prompt_and_a_table_in_a_notebook() -> None:
    """Text of users is escaped."""
    client, store, _, _ = client_of()
    publish(store, "queue", {"jobs": [row(A, text="<b>behind</b>", started_at=NOW + 5)]})
    jobs = client.jobs()
    assert repr(jobs[0]) == f"<{A} queued: <b>behind</b>>"
    assert repr(client.why(A)) == f"<{A} queued: <b>behind</b>>"
    shown = jobs._repr_html_()  # type: ignore[attr-defined]
    assert "<td>&lt;b&gt;behind&lt;/b&gt;</td>" in shown
    assert shown.count("<tr>") == 2
    assert repr(LaunchStatus(jobs=jobs)) == f"<{A} queued: <b>behind</b>>"
    assert repr(client) == "Client('memory:', user='ada')"


def test_what_is_used_now_is_one_line_too() -> None:
    """It has each machine, with the devices that jobs hold."""
    free = DeviceView(machine="m-0", type="h100", index=0)
    held = replace(free, index=1, job=A)
    used = UsedMachine(name="m-0", pool="own", devices=(free, held))
    assert repr(TopView(as_of=NOW, machines=(used,))) == "<devices held: m-0 1 of 2>"
    assert repr(TopView(as_of=NOW, machines=())) == "<devices held: no machines>"


def test_the_status_and_events_are_one_line_too() -> None:
    """It has the leader and the number of jobs; the shares are a table."""
    shares = ProjectView(name="vision", nominal=Amounts({"cpu": 4, "h100": 8}), queued=2)
    status = StatusView(as_of=NOW, leader="a", host="vm", counts={"queued": 2}, projects=(shares,))
    assert repr(status) == "<a leads on vm; 2 queued>"
    assert "<td>8 h100 + 4 cpu</td>" in status._repr_html_()
    event = EventView(number=1, at=NOW, job="", project="", what="leads", text="a on vm")
    assert repr(event) == "<2023-11-14 22:13:20 leads a on vm>"
    assert event.happened == datetime.fromtimestamp(NOW, UTC)


def test_a_bar_needs_no_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn once, replaces itself, and changes only with its contents."""
    drawn: list[str] = []

    class Handle:
        def update(self, bar: Bar) -> None:
            drawn.append(f"then {bar!r}")

    def display(bar: Bar, display_id: bool) -> Handle:
        assert display_id
        drawn.append(repr(bar))
        return Handle()

    shell = ModuleType("IPython.display")
    shell.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython.display", shell)
    with progress("train-1") as report:
        report(0, 2)
        report(0, 2)
        report(1, 2)
    assert drawn == ["train-1: 0 of 2 ended", "then train-1: 1 of 2 ended"]
    assert Bar("<b>", done=1, total=2)._repr_html_().startswith('<progress max="2" value="1">')


def test_times_are_moments_too() -> None:
    """Seconds since 1970 are available too, for computations."""
    client, store, _, _ = client_of()
    publish(store, "queue", {"jobs": [row(A, started_at=NOW + 5)]})
    job = client.job(A)
    assert job.submitted == datetime.fromtimestamp(NOW, UTC)
    assert job.started == datetime.fromtimestamp(NOW + 5, UTC)
    assert job.ended is None


def test_the_log_of_the_only_job_needs_no_name() -> None:
    """With several jobs one must be named, and the error lists them."""
    client, store, _, _ = client_of()
    handle = client.launch(launch_of())
    print_log(store, handle.jobs[0], b"a line\n")
    assert handle.logs() == "a line\n"
    handle.jobs, handle._by_name = (A, B), {"x": A, "y": B}
    with pytest.raises(SpecError, match="no job named") as caught:
        handle.logs()
    assert caught.value.hint == "name one: x, y"


def test_the_log_of_a_task_that_is_not_there_is_refused() -> None:
    """Only a task's own number is valid; a task without output has an empty log."""
    client, store, _, _ = client_of()
    handle = client.launch(replace(launch_of(), array=Array("0-2,5")))
    print_log(store, f"{handle.id}.5", b"a line\n")
    assert (handle.logs(5), handle.logs(0)) == ("a line\n", "")
    for other in (7, 3, -1, True):
        with pytest.raises(NotFoundError, match=f"has no task {other}; it has 4, from 0 to 5"):
            handle.logs(other)
    with pytest.raises(NotFoundError, match="has no job 0") as caught:
        client.launch(launch_of()).logs(0)
    assert caught.value.hint == "its jobs are main"


def test_a_launch_is_followed_to_its_end() -> None:
    """Its output is written, and its outcome is returned."""
    client, store, _, _ = client_of()
    handle = client.launch(launch_of())
    print_log(store, handle.jobs[0], b"one\n", b"two\n")
    end(store, handle.jobs[0])
    out = io.StringIO()
    status = handle.follow(out)
    assert status.counts == {"succeeded": 1}
    assert status.has_succeeded
    assert out.getvalue() == "one\ntwo\n"
    other = client.launch(launch_of())
    end(store, other.jobs[0], outcome="failed", code=3)
    assert not other.wait().has_succeeded


def test_what_is_followed_keeps_lines_and_characters_whole() -> None:
    """A partial line or character of one job is not cut by another."""
    client, store, _, _ = client_of()
    handle = client.launch(launch_of())
    print_log(store, handle.jobs[0], "größe".encode()[:3], "größe".encode()[3:])
    end(store, handle.jobs[0])
    out = io.StringIO()
    handle.follow(out)
    assert out.getvalue() == "größe"
    handle.jobs, handle._by_name = (A, B), {"x": A, "y": B}
    handle.names = ("x", "y")
    for job, parts in ((A, (b"loss ", b"0.5\n")), (B, (b"epoch",))):
        print_log(store, job, *parts)
        end(store, job)
    out = io.StringIO()
    handle.follow(out)
    assert sorted(out.getvalue().splitlines()) == ["x | loss 0.5", "y | epoch"]


def test_a_refusal_is_one_error_with_its_hint() -> None:
    """There is no chain of internal errors; the traceback contains the hint."""
    client, _, _, _ = client_of()
    with pytest.raises(BastionError) as caught:
        client.launch(bastion.Launch(name="a", jobs=launch_of().jobs, code=LocalDir("/no/such")))
    text = "".join(traceback.format_exception(caught.value))
    assert "direct cause" not in text
    assert text.rstrip().splitlines()[-1] == "hint: name the top folder of your code"


def test_a_wait_takes_several_names_and_either_word_for_its_timeout() -> None:
    """`timeout` is the name in the standard library; both together are refused."""
    client, store, _, _ = client_of()
    handle = client.launch(launch_of())
    for job in (A, B):
        end(store, job)
    publish(store, "queue", {"jobs": []})
    assert [job.id for job in client.wait(A, [B], timeout=5)] == [A, B]
    end(store, handle.jobs[0])
    assert handle.wait(5).counts == handle.wait(timeout=5).counts == {"succeeded": 1}
    with pytest.raises(SpecError, match="timeout: it is the same as timeout_s"):
        handle.wait(timeout=5, timeout_s=5)


def test_a_method_of_another_client_is_answered_with_ours() -> None:
    """Methods of sky, submitit and futures get ours, or the nearest name; private ones none."""
    client, _, _, _ = client_of()
    handle = client.launch(launch_of())
    for holder, theirs, ours in (
        (client, "submit", "launch"),
        (client, "list_jobs", "jobs"),
        (client, "cancell", "cancel"),
        (handle, "tail_logs", "follow"),
        (handle, "result", "wait"),
        (handle, "name", "names"),
        (client, "history", "record"),
        (client, "usage", "record"),
        (handle.status(), "ok", "has_succeeded"),
    ):
        with pytest.raises(AttributeError, match=f"{theirs!r}; did you mean {ours}\\?$"):
            getattr(holder, theirs)
    with pytest.raises(AttributeError, match=rf"write client\.events\('{handle.id}'\)$"):
        handle.events  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute '_repr_mimebundle_'$"):
        getattr(client, "_repr_mimebundle_")  # noqa: B009


@pytest.mark.parametrize("wrong", [["python3", "train.py"], 5, None])
def test_what_is_no_launch_is_told_how_to_write_one(wrong: object) -> None:
    """A command is the most frequent wrong argument."""
    client, _, _, _ = client_of()
    with pytest.raises(SpecError, match="is not a launch, nor the path of its file") as caught:
        client.launch(wrong)  # type: ignore[arg-type]
    assert caught.value.hint.startswith("Launch(name='train', jobs=[Job(")


def test_a_part_of_a_launch_and_a_program_are_told_as_what_they_are(tmp_path: Path) -> None:
    """The error names the kind of a job, and the launch that runs a script."""
    client, _, _, _ = client_of()
    with pytest.raises(SpecError, match="launch: a Job is not a launch, nor the path"):
        client.launch(Job(processes=[Process(["true"])]))  # type: ignore[arg-type]
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    with pytest.raises(SpecError, match=r"train\.py: is a program, and a launch is read") as caught:
        client.launch(script)
    assert "Process(['python3', 'train.py'])" in caught.value.hint


def test_a_timeout_may_be_written_as_a_duration() -> None:
    """It works as everywhere else; a wrong one has our error, not Python's."""
    assert one_timeout("1m30s", None) == 90.0
    assert one_timeout(None, 2) == 2.0
    assert one_timeout(float("inf"), None) is None
    with pytest.raises(SpecError, match="timeout: 'soon' is not a duration"):
        one_timeout("soon", None)


def test_a_number_is_no_name() -> None:
    """A positional timeout has an error, and is not treated as a job."""
    client, _, _, _ = client_of()
    with pytest.raises(SpecError, match="5 is not the name of a job, nor a list of names"):
        client.wait("train", 5)  # type: ignore[arg-type]


def test_a_name_that_is_elsewhere_says_where() -> None:
    """The error has the intended import, or the nearest name."""
    with pytest.raises(ImportError, match=r"write: from bastion\.compat import clusterfudge"):
        from bastion import clusterfudge  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match=r"write: bastion\.Client\(\)\.launch"):
        from bastion import submit  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match="'GPU'; write: from bastion import Resources"):
        _ = bastion.GPU  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="did you mean Launch"):
        _ = bastion.Lanch  # type: ignore[attr-defined]
