"""The verbs of admins about machines, as typed."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.registers import CheckOutcome
from bastion.records.requests.machine_request import (
    CheckRequest,
    DrainRequest,
    MachinesRequest,
    WarmRequest,
)
from bastion.records.requests.request import Body
from launch import exits
from tests.launch.bucket import Bucket
from tests.launch.command_line import Run
from tests.launch.terminal import drawn
from tests.rigs.scripted_bastion import NOW, ScriptedBastion, lead, publish


def row(name: str, **fields: object) -> dict[str, object]:
    """Return a row of the view of machines."""
    return {"name": name, "pool": "gpu", "phase": "ready", **fields}


def test_machines_are_cordoned_and_uncordoned(run: Run, bucket: Bucket) -> None:
    """The request has the names and the reason; the table shows what was done."""
    with bucket.bastion() as bastion:
        ran = run("cordon", "gpu-1-0", "gpu-1-1", "--reason=xid 79")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.split() == ["MACHINE", "DONE", "gpu-1-0", "cordoned", "gpu-1-1", "cordoned"]
        assert run("uncordon", "gpu-1-0", "--json").out.count("uncordoned") == 1
    bodies = [body for _, body in bastion.taken]
    first = MachinesRequest(machines=("gpu-1-0", "gpu-1-1"), reason="xid 79")
    assert bodies == [first, MachinesRequest(machines=("gpu-1-0",))]


def test_a_machine_that_is_being_deleted_is_a_refusal(run: Run, bucket: Bucket) -> None:
    """It exists, so the exit code is that of a refusal by the bastion."""
    with bucket.bastion() as bastion:
        bastion.refusals.append("gpu-1-0: is being deleted")
        ran = run("cordon", "gpu-1-0")
    assert ran.code == exits.REFUSED
    assert "gpu-1-0: is being deleted" in ran.err


def test_a_refusal_is_told(run: Run, bucket: Bucket) -> None:
    """For an unknown machine, the command ends with the bastion's words."""
    with bucket.bastion() as bastion:
        bastion.refusals.append("gpu-9: no such machine, did you mean gpu-1-0?")
        ran = run("drain", "gpu-9")
    assert ran.code == exits.NOT_FOUND
    assert "gpu-9: no such machine, did you mean gpu-1-0?" in ran.err


def test_a_drain_waits_where_it_is_asked_to(run: Run, bucket: Bucket) -> None:
    """Without --wait, it says how to wait; with it, the end is reported."""
    drained = row("gpu-1-0", draining=True, drained_at=5.0, cordoned="kernel (ada)")
    publish(bucket.store, "pool", {"now": 9e9, "machines": [drained]})
    with bucket.bastion() as bastion:
        ran = run("drain", "gpu-1-0", "--reason=kernel", "--deadline=0s")
        assert ran.out.split() == ["MACHINE", "DONE", "gpu-1-0", "draining"]
        assert "to wait until they are drained: bastion drain gpu-1-0 --wait" in ran.err
        ran = run("drain", "gpu-1-0", "--wait")
        assert ran.out.split() == ["MACHINE", "DONE", "gpu-1-0", "drained"]
    first, second = (body for _, body in bastion.taken)
    assert first == DrainRequest(machines=("gpu-1-0",), reason="kernel", deadline_s=0.0)
    assert second == DrainRequest(machines=("gpu-1-0",))


def test_a_drain_that_is_taken_back_is_no_success(run: Run, bucket: Bucket) -> None:
    """A script that waits before it turns machines off must not continue: jobs may run there."""
    rows = [row("gpu-1-0"), row("gpu-1-1", draining=True, drained_at=5.0)]
    publish(bucket.store, "pool", {"now": 9e9, "machines": rows})
    with bucket.bastion():
        ran = run("drain", "gpu-1-0", "gpu-1-1", "--wait")
    assert ran.code == exits.FAILED
    assert ran.out.split()[2:] == ["gpu-1-0", "uncordoned", "gpu-1-1", "drained"]
    assert "not drained: gpu-1-0 was uncordoned in the meantime" in ran.err


def test_a_list_of_machines_tells_drains(run: Run, bucket: Bucket) -> None:
    """It distinguishes machines that are still draining from drained ones."""
    rows = [
        row("gpu-1-0", draining=True, cordoned="kernel (ada)"),
        row("gpu-1-1", draining=True, drained_at=5.0, cordoned="kernel (ada)"),
    ]
    publish(bucket.store, "pool", {"now": 9e9, "machines": rows})
    lines = run("machines").out.splitlines()
    assert "ready, draining: kernel (ada)" in lines[1]
    assert "ready, drained: kernel (ada)" in lines[2]


def test_pools_name_the_machines_that_take_no_job(run: Run, bucket: Bucket) -> None:
    """The table has free capacity: a few are named with the reason, the rest counted."""
    stuck = row("gpu-0-0", phase="creating", stuck="its agent does not begin: no space left")
    full = [row(f"gpu-1-{n}", unwell="its disk is full") for n in range(6)]
    well = [row("gpu-2-0"), row("gpu-2-1", phase="creating")]
    publish(bucket.store, "pool", {"now": 9e9, "machines": [stuck, *full, *well]})
    told = run("pool").err.splitlines()
    assert told[:2] == [
        "gpu-0-0: creating: its agent does not begin: no space left",
        "gpu-1-0: ready, unwell: its disk is full",
    ]
    assert told[5] == "and 2 more machines; to see all: bastion machines"
    assert "gpu-2" not in "".join(told)
    assert "creating: its agent does not begin" in run("machines").out


def test_what_maintenance_closes_is_not_free(run: Run, bucket: Bucket) -> None:
    """It is announced before the window, closed during it, and forgotten afterwards."""
    begin, end = (datetime(2026, 8, 1, hour, tzinfo=UTC).timestamp() for hour in (6, 12))
    window = {"starts_at": begin, "ends_at": end, "pools": ["gpu"], "reason": "new firmware"}
    lead(bucket.store, now=begin, maintenance=[window])
    rows = [
        row("gpu-1-0", resources={"h100": 8}, free={"h100": 8}),
        row("big-1-0", resources={"h100": 8}, free={"h100": 8}, pool="big"),
    ]
    note = "maintenance closes gpu from 2026-08-01 06:00 to 2026-08-01 12:00 UTC: new firmware"

    def at(hour: int) -> tuple[list[str], str, bool]:
        as_of = datetime(2026, 8, 1, hour, tzinfo=UTC).timestamp()
        publish(bucket.store, "pool", {"now": as_of, "machines": rows})
        pools = run("pool")
        machines = run("machines")
        (phase,) = [
            re.split("  +", line)[2] for line in machines.out.splitlines() if "gpu-1-0" in line
        ]
        free = [re.split("  +", line)[3] for line in pools.out.splitlines()[1:]]
        lead(bucket.store, now=as_of, maintenance=[window])
        status = run("status")
        assert (note in pools.err) == (note in status.err)
        assert (note in pools.err) == (note in machines.err)
        return free, phase, note in pools.err

    told = json.loads(run("status", "--json").out)["status"]["maintenance"]
    times = {"starts_at": "2026-08-01T06:00:00.000Z", "ends_at": "2026-08-01T12:00:00.000Z"}
    assert told == [{**window, **times, "machines": []}]
    assert at(5) == (["8 h100", "8 h100"], "ready", True)
    assert at(6) == (["8 h100", "0 h100"], "ready, closed for maintenance", True)
    assert at(12) == (["8 h100", "8 h100"], "ready", False)


def test_of_many_windows_the_first_are_told(run: Run, bucket: Bucket) -> None:
    """The earliest three, whatever their order in the file, and how many come later."""
    hours = (5, 2, 9, 1, 7)
    windows = [
        {"starts_at": NOW + 3600 * n, "ends_at": NOW + 3600 * n + 60, "reason": f"hour {n}"}
        for n in hours
    ]
    publish(bucket.store, "pool", {"machines": []})
    lead(bucket.store, now=NOW, maintenance=windows)
    for verb in ("status", "pool", "machines"):
        told = [line for line in run(verb).err.splitlines() if "maintenance" in line]
        assert [line.rpartition(": ")[2] for line in told[:-1]] == ["hour 1", "hour 2", "hour 5"]
        assert told[-1] == "2 more of maintenance later: bastion quota show lists all"


def answering(bastion: ScriptedBastion, outcome: CheckOutcome) -> None:
    """Let an agent write `outcome` for the next check."""

    def on_taken(name: layout.RequestName, body: Body) -> None:
        if isinstance(body, CheckRequest):
            bastion.store.create(layout.check(body.machine, name.ulid), encode(outcome))

    bastion.on_taken = on_taken


def test_a_machine_says_what_there_is(run: Run, bucket: Bucket) -> None:
    """The agent's lines are the output, and a healthy machine exits with 0."""
    outcome = CheckOutcome(write_id="w", by="hello", lines=("host gpu7", "load 0.1 0.2 0.3"))
    with bucket.bastion() as bastion:
        answering(bastion, outcome)
        ran = run("machine", "check", "gpu-1-0")
    assert (ran.code, ran.out) == (0, "host gpu7\nload 0.1 0.2 0.3\n")
    assert "waiting for the agent of gpu-1-0" in ran.err


def test_a_check_of_a_machine_that_does_not_exist_says_so_at_once(run: Run, bucket: Bucket) -> None:
    """It does not wait for an agent: only the bastion's refusal is printed."""
    with bucket.bastion() as bastion:
        bastion.refusals = ["gpu-9-9: no such machine, known are gpu-1-0"]
        ran = run("machine", "check", "gpu-9-9")
    assert ran.code == exits.NOT_FOUND
    assert "gpu-9-9: no such machine" in ran.err and "waiting" not in ran.err


def test_a_load_that_is_not_borne_is_told(run: Run, bucket: Bucket) -> None:
    """The exit code is 1, and the message says that the machine is cordoned."""
    outcome = CheckOutcome(write_id="w", by="burn", problem="the load exited with 1: GPU 3")
    with bucket.bastion() as bastion:
        answering(bastion, outcome)
        ran = run("machine", "check", "gpu-1-0", "burn")
    assert ran.code == exits.FAILED
    assert "gpu-1-0: the load exited with 1: GPU 3; it is cordoned" in ran.err
    assert bastion.taken[0][1] == CheckRequest(machine="gpu-1-0", by="burn")


def test_a_check_that_was_not_made_is_told(run: Run, bucket: Bucket) -> None:
    """It says nothing about the machine, and is no success."""
    outcome = CheckOutcome(write_id="w", by="burn", undone="a job runs here")
    with bucket.bastion() as bastion:
        answering(bastion, outcome)
        ran = run("machine", "check", "gpu-1-0", "burn", "--json")
    assert ran.code == exits.FAILED
    assert '"undone": "a job runs here"' in ran.out
    assert "gpu-1-0 was not checked: a job runs here" in ran.err


def test_a_pool_is_kept_warm(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """The pool can be omitted if there is only one; the list of pools shows the number."""
    warm = {"gpu": {"machines": 2, "until": 9e9, "by": "ada"}}
    publish(bucket.store, "pool", {"now": 8e9, "pools": [{"name": "gpu"}], "warm": warm})
    with bucket.bastion() as bastion:
        assert run("pool", "warm", "2", "--for=12h").err == "gpu: 2 machines kept ready for 12h\n"
        assert run("pool", "warm", "gpu", "0").err == "gpu: no machine is kept ready\n"
    bodies = [body for _, body in bastion.taken]
    assert bodies == [
        WarmRequest(pool="gpu", machines=2, for_s=43200.0),
        WarmRequest(pool="gpu", machines=0),
    ]
    ran = run("pool")
    assert "gpu: 2 machines kept ready until " in ran.err
    assert ", by ada" in ran.err
    lines = drawn(["pool"], bucket, tmp_path, columns=80)
    assert any("gpu: 2 machines kept ready for 11574d " in line for line in lines), lines


def test_words_that_are_no_wish_are_refused(run: Run) -> None:
    """For a misspelt verb or a missing number, the error shows the syntax."""
    assert "--for: '12' is not a duration" in run("pool", "warm", "gpu", "2", "--for=12").err
    for words in (("worm", "2"), ("warm",), ("warm", "gpu", "two"), ("warm", "a", "b", "2")):
        ran = run("pool", *words)
        assert ran.code == exits.USAGE
        assert "bastion pool warm POOL N keeps N machines ready" in ran.err


def test_a_machine_whose_agent_is_silent_says_so(run: Run, bucket: Bucket) -> None:
    """After four missed heartbeats, the time of silence is shown beside the phase."""
    rows = [row("late", heard_at=1000.0, heartbeat_s=30.0), row("well", heard_at=1000.0)]
    publish(bucket.store, "pool", {"now": 1300.0, "machines": rows})
    late, well = run("machines").out.splitlines()[1:]
    assert "ready, silent for 5m" in late
    assert "silent" not in well
