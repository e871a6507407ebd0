"""Only admins can cordon, uncordon and drain machines, and the reason is visible to all."""

from __future__ import annotations

from typing import Any

import pytest

from bastion.errors import SpecError
from bastion.machine import Check
from bastion.records.keys import layout
from bastion.records.reports.facts import Checked, Health
from bastion.records.requests.job_request import JobsRequest
from bastion.records.requests.machine_request import (
    CheckRequest,
    DrainRequest,
    MachinesRequest,
    WarmRequest,
)
from bastion.records.requests.request import Body
from bastion.service.intake.machine_requests import BURN_S, HELLO_S
from bastion.service.publish.queue_view import queue_view
from bastion.service.publish.views import pool_view
from bastion.value import replace
from tests.rigs.leader import Rig

ONE = """
[pools.gpu]
provider = "fake"
resources = { h100 = 8 }
max_machines = 1
min_machines = 1
"""
TWO = ONE.replace("= 1", "= 2")


def begun(config: str = ONE) -> tuple[Rig, str]:
    """Return a rig with its machines ready, and the name of the first."""
    rig = Rig(config=config)
    rig.until(lambda: all(m.life for m in rig.root.machines.values()) and bool(rig.root.machines))
    return rig, min(rig.root.machines)


def begun_now(config: str = ONE) -> tuple[Rig, str]:
    """Return `begun` with agents of this Bastion, which promise heartbeats."""
    rig, name = begun(config)
    for agent in rig.agents.values():
        agent.heartbeat_s = 300.0
        agent.ring(agent.hello())
    rig.turn()
    return rig, name


def asked(rig: Rig, verb: str, body: Body, *, project: str = layout.ADMIN) -> str:
    """Return why the bastion refuses root's request; empty if it accepts it."""
    request = rig.ask("root", project, verb, body)
    rig.turn()
    answer = rig.answer(request, user="root", project=project)
    return "" if answer.accepted else "; ".join(answer.problems)


def told(rig: Rig, what: str) -> list[str]:
    """Return the texts of an event in the history."""
    return [event.text for event in rig.history() if event.what == what]


def test_a_cordon_keeps_new_jobs_away_and_says_why() -> None:
    """A waiting job names the machine, the reason and the admin; after uncordon, it starts."""
    rig, name = begun()
    running = rig.start("first", h100=4)
    assert asked(rig, "cordon", MachinesRequest(machines=(name,), reason="new driver")) == ""
    waiting = rig.submit("second", h100=4)
    rig.turn(3)
    assert rig.phase(running) == "running"
    assert rig.phase(waiting) == "queued"
    rows = {row["id"]: row for row in queue_view(rig.root, rig.leader._plan)["jobs"]}
    assert f"{name} (cordoned: new driver (root))" in rows[waiting]["text"]
    assert told(rig, "machine cordoned") == [f"{name}: new driver (root)"]
    assert asked(rig, "uncordon", MachinesRequest(machines=(name,))) == ""
    rig.until(lambda: rig.phase(waiting) == "running")
    assert told(rig, "machine uncordoned") == [f"{name}: by root"]


def test_a_drain_lets_jobs_end_and_tells_when_they_have() -> None:
    """Without a deadline nothing is stopped; waiting jobs see the machine's drain."""
    rig, name = begun()
    job = rig.start("long", h100=4)
    assert asked(rig, "drain", DrainRequest(machines=(name,))) == ""
    waiting = rig.submit("next", h100=4)
    rig.turn(5, seconds=3600.0)
    assert rig.phase(job) == "running"
    assert not told(rig, "machine drained")
    rows = {row["id"]: row for row in queue_view(rig.root, rig.leader._plan)["jobs"]}
    assert f"{name} (draining: by root)" in rows[waiting]["text"]
    rig.agents[name].end(job)
    rig.until(lambda: bool(told(rig, "machine drained")))
    (row,) = pool_view(rig.root, {})["machines"]
    assert row["draining"] and row["drained_at"] == rig.root.machines[name].drained_at
    rig.turn(5)
    rows = {row["id"]: row for row in queue_view(rig.root, rig.leader._plan)["jobs"]}
    assert f"{name} (drained: by root)" in rows[waiting]["text"]
    assert rig.phase(waiting) == "queued"
    assert len(told(rig, "machine drained")) == 1


def test_a_drain_with_a_deadline_preempts_what_still_runs_then() -> None:
    """The job runs until the deadline; then it gets its notice, and continues elsewhere."""
    rig, name = begun(TWO)
    job = rig.start("long", h100=4)
    name = rig.agent_of(job).name
    drained = DrainRequest(machines=(name,), reason="kernel", deadline_s=600.0)
    assert asked(rig, "drain", drained) == ""
    rig.clock.advance(590.0)
    rig.turn()
    assert rig.phase(job) == "running" and rig.job(job).attempts == 1
    rig.clock.advance(20.0)
    rig.until_attempt(job, 2)
    assert rig.agent_of(job).name != name
    (stop,) = rig.agents[name].stops
    assert (stop.reason, stop.by) == ("preempt", f"the drain of machine {name}: kernel (root)")
    rig.until(lambda: bool(told(rig, "machine drained")))


def test_a_second_drain_keeps_what_it_does_not_say() -> None:
    """A second drain changes neither the reason nor the deadline of the first."""
    rig, name = begun()
    rig.start("long", h100=4)
    asked(rig, "drain", DrainRequest(machines=(name,), reason="kernel", deadline_s=600.0))
    before = rig.root.machines[name]
    assert asked(rig, "drain", DrainRequest(machines=(name,))) == ""
    assert rig.root.machines[name] == before
    asked(rig, "uncordon", MachinesRequest(machines=(name,)))
    after = rig.root.machines[name]
    assert after.accepts and after.drain_by is None and not after.draining


def test_a_cordon_keeps_why_a_machine_is_drained() -> None:
    """What a cordon or a drain says is added to the reason of a drain, and removes nothing."""
    rig, name = begun()
    rig.start("long", h100=4)
    asked(rig, "drain", DrainRequest(machines=(name,), reason="kernel", deadline_s=600.0))
    before = rig.root.machines[name]
    assert asked(rig, "cordon", MachinesRequest(machines=(name,))) == ""
    assert rig.root.machines[name] == before
    for _ in range(2):
        asked(rig, "cordon", MachinesRequest(machines=(name,), reason="fan"))
        assert rig.root.machines[name] == replace(before, cordoned="kernel (root); fan (root)")
    assert told(rig, "machine cordoned") == [f"{name}: fan (root)"]


def test_what_says_nothing_keeps_why_a_machine_is_cordoned() -> None:
    """A drain of a cordoned machine also keeps the machine's reason."""
    rig, name = begun()
    asked(rig, "cordon", MachinesRequest(machines=(name,), reason="fan"))
    asked(rig, "cordon", MachinesRequest(machines=(name,)))
    asked(rig, "drain", DrainRequest(machines=(name,)))
    assert rig.root.machines[name].cordoned == "fan (root)"
    assert told(rig, "machine cordoned") == [f"{name}: fan (root)"]
    assert told(rig, "machine draining") == [f"{name}: by root"]


def test_only_the_inbox_of_admins_changes_machines() -> None:
    """It is refused in a project's inbox, and so is a project's verb in the admins' inbox."""
    rig, name = begun()
    body = MachinesRequest(machines=(name,))
    problem = asked(rig, "cordon", body, project="blue")
    assert problem == "cordon: is for admins, and comes through inbox/_admin/"
    problem = asked(rig, "cancel", JobsRequest(targets=("train-0123456789",)))
    assert problem == "cancel: concerns a project, and comes through the inbox of one"
    assert rig.root.machines[name].accepts


def test_every_wrong_name_is_told_and_nothing_is_changed() -> None:
    """A typo beside a correct name cordons neither."""
    rig, name = begun()
    problem = asked(rig, "cordon", MachinesRequest(machines=(name, "gpu-77-1")))
    assert problem.startswith("gpu-77-1: no such machine, ")
    assert name in problem
    assert rig.root.machines[name].accepts


def test_machines_are_cordoned_without_a_quota_file() -> None:
    """An admin must be able to close a machine even while the quota file is broken."""
    rig, name = begun()
    rig.put(layout.QUOTA, "broken = [")
    rig.turn(3, seconds=60.0)
    assert asked(rig, "cordon", MachinesRequest(machines=(name,))) == ""
    assert rig.root.machines[name].cordoned == "by root"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"machines": ()}, "machines: 0 is not allowed"),
        ({"machines": ("",)}, "machines: a name has 1 to 200 characters"),
        ({"machines": ("a",), "reason": "x" * 201}, "reason: 201 characters; at most 200"),
        ({"machines": ("a",), "deadline_s": float("nan")}, "deadline_s: nan is not allowed"),
        ({"machines": ("a",), "deadline_s": -1.0}, "deadline_s: -1.0 is not allowed"),
    ],
)
def test_a_request_out_of_bounds_cannot_be_made(fields: dict[str, Any], problem: str) -> None:
    """Names, reasons and deadlines have bounds in the record itself."""
    with pytest.raises(SpecError, match=problem):
        DrainRequest(**fields)


def test_a_burn_keeps_jobs_away_until_it_is_over() -> None:
    """The agent gets the pool's own load; jobs start if the result was good."""
    rig, name = begun_now(ONE + 'health = { burn = "dcgmi diag -r 1" }\n')
    request = rig.ask("root", layout.ADMIN, "check", CheckRequest(machine=name, by="burn"))
    rig.turn(2)
    (told_to,) = [each for each in rig.agents[name].told if isinstance(each, Check)]
    assert (told_to.id, told_to.by, told_to.command) == (request, "burn", "dcgmi diag -r 1")
    waiting = rig.submit("next", h100=4)
    rig.turn(5)
    assert rig.phase(waiting) == "queued"
    rows = {row["id"]: row for row in queue_view(rig.root, rig.leader._plan)["jobs"]}
    assert f"{name} (unwell: its devices are loaded for root)" in rows[waiting]["text"]
    rig.agents[name].ring(Checked(id=request, by="burn"))
    rig.until(lambda: rig.phase(waiting) == "running")
    assert told(rig, "machine checked") == [f"{name}: burn: all is well"]


def test_a_machine_that_does_not_bear_its_load_is_cordoned() -> None:
    """The reason is the load's last line; a greeting with a finding only reports it."""
    rig, name = begun_now()
    asked(rig, "check", CheckRequest(machine=name, by="burn"))
    rig.agents[name].ring(Checked(id="U", by="hello", problem="it has 7 GPUs"))
    rig.turn(2)
    assert not rig.root.machines[name].cordoned
    rig.agents[name].ring(Checked(id="U", by="burn", problem="the load exited with 1: GPU 3"))
    rig.turn(2)
    assert rig.root.machines[name].cordoned == "burn: the load exited with 1: GPU 3"
    assert not rig.root.machines[name].unwell


def test_what_an_agent_told_outlasts_a_check() -> None:
    """A load says nothing about a full disk, or about the burn before the greeting."""
    rig, name = begun_now()
    rig.agents[name].ring(Health(unwell="its disk is full"))
    rig.turn(2)
    asked(rig, "check", CheckRequest(machine=name, by="burn"))
    rig.agents[name].ring(Checked(id="U", by="burn"))
    rig.turn(2)
    assert rig.root.machines[name].unwell == "its disk is full"
    rig.agents[name].ring(Health())
    rig.turn(2)
    assert rig.root.machines[name].accepts


def test_an_agent_that_is_well_does_not_end_a_check() -> None:
    """Nothing starts beside the load of a machine whose disk has room again."""
    rig, name = begun_now()
    asked(rig, "check", CheckRequest(machine=name, by="burn"))
    rig.agents[name].ring(Health())
    rig.turn(2)
    assert not rig.root.machines[name].accepts
    rig.agents[name].ring(Checked(id="U", by="burn"))
    rig.turn(2)
    assert rig.root.machines[name].accepts


def test_a_burn_that_is_never_told_of_ends_all_the_same() -> None:
    """If its agent died, the machine takes jobs again after the longest possible load."""
    rig, name = begun_now()
    rig.agents[name].is_deaf = True
    asked(rig, "check", CheckRequest(machine=name, by="burn"))
    assert not rig.root.machines[name].accepts
    rig.clock.advance(BURN_S + HELLO_S + 1.0)
    rig.turn()
    assert rig.root.machines[name].accepts


def test_nothing_is_loaded_where_a_job_runs() -> None:
    """A burn is refused there, with the job's name; a greeting is not."""
    rig, name = begun_now()
    job = rig.start("train", h100=1)
    problem = asked(rig, "check", CheckRequest(machine=name, by="burn"))
    assert problem == f"{name}: {job} would be disturbed; drain it first"
    assert asked(rig, "check", CheckRequest(machine=name)) == ""


def test_a_machine_without_an_agent_is_not_checked() -> None:
    """It could not answer: the admin is told immediately."""
    rig = Rig(config=ONE)
    rig.are_agents_up = False
    rig.turn(3)
    (name,) = rig.root.machines
    assert asked(rig, "check", CheckRequest(machine=name)) == f"{name}: has no agent yet"


def test_an_older_agent_is_not_told_of_a_check() -> None:
    """It would skip its whole batch, even a stop of its job: the admin is told instead."""
    rig, name = begun()
    job = rig.start("train", h100=1)
    problem = asked(rig, "check", CheckRequest(machine=name))
    assert problem.startswith(f"{name}: its agent runs an older Bastion, which has no checks")
    assert not any(isinstance(each, Check) for each in rig.agents[name].told)
    assert rig.phase(job) == "running" and rig.root.machines[name].accepts


ELASTIC = """
[pools.gpu]
provider = "fake"
resources = { h100 = 8 }
max_machines = 3
idle_timeout = "1m"
"""


def test_a_pool_is_kept_warm_for_a_while() -> None:
    """Machines are created immediately, outlast the pool's idle time, and go when time is up."""
    rig = Rig(config=ELASTIC)
    rig.turn(2)
    assert not rig.root.machines
    assert asked(rig, "warm", WarmRequest(pool="gpu", machines=2, for_s=3600.0)) == ""
    rig.until(lambda: [m.phase for m in rig.root.machines.values()] == ["ready", "ready"])
    names = set(rig.root.machines)
    view = pool_view(rig.root, {})["warm"]["gpu"]
    assert (view["machines"], view["by"]) == (2, "root")
    rig.clock.advance(3000.0)
    rig.turn(3)
    assert set(rig.root.machines) == names
    rig.clock.advance(1000.0)
    rig.until(lambda: not rig.root.machines)
    assert not rig.root.warm
    assert told(rig, "pool warm") == [
        "gpu: 2 are kept for 1h, by root",
        "gpu: no machines are kept any longer: the time is up",
    ]


def test_a_bastion_that_takes_over_keeps_a_pool_warm() -> None:
    """The request is in root, not in memory."""
    rig = Rig(config=ELASTIC)
    rig.turn(2)
    asked(rig, "warm", WarmRequest(pool="gpu", machines=1))
    rig.leader = rig.take("other", pid=2)
    rig.turn(10, seconds=60.0)
    assert len(rig.root.machines) == 1


def test_zero_ends_what_is_kept_warm() -> None:
    """The idle machines are deleted after the pool's own idle time."""
    rig = Rig(config=ELASTIC)
    rig.turn(2)
    asked(rig, "warm", WarmRequest(pool="gpu", machines=1))
    rig.turn(5)
    asked(rig, "warm", WarmRequest(pool="gpu", machines=0))
    assert not rig.root.warm and rig.root.machines
    rig.clock.advance(61.0)
    rig.until(lambda: not rig.root.machines)


def test_more_than_a_pool_may_have_is_refused() -> None:
    """A pool that does not exist is refused too."""
    rig = Rig(config=ELASTIC)
    rig.turn(2)
    problem = asked(rig, "warm", WarmRequest(pool="gpu", machines=4))
    assert problem == "gpu: 4 is more than it may have, which is 3"
    assert asked(rig, "warm", WarmRequest(pool="gpus", machines=1)).startswith(
        "gpus: no such pool, "
    )
