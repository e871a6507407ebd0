"""Images are placed where containers run; otherwise they wait with a true reason."""

from __future__ import annotations

from bastion.records.keys import layout
from bastion.records.reports.facts import Hello
from bastion.spec import ImageRef, Resources
from tests.rigs.leader import CONFIG, Rig

IMAGE = ImageRef(ref="h/x:1")
BOTH = CONFIG.replace("[pools.gpu]", "[pools.plain]").replace(
    "count = 2", "count = 1"
) + CONFIG.replace("count = 2", "count = 1\ncontainers = true")


def says(rig: Rig, machine: str, label: str) -> None:
    """Let an agent greet again with what it found of its engine."""
    agent = rig.agents[machine]
    hello = Hello(
        resources=Resources(h100=8).amounts,
        address="a",
        hostname=machine,
        version="0",
        labels={"containers": label},
    )
    agent.ring(hello)


def test_an_image_that_nothing_runs_is_told_why() -> None:
    """The reason names what is missing, and who can change it."""
    rig = Rig()
    rig.turn(2)
    asked = rig.launch("boxed", h100=1, code=IMAGE, when_busy="fail")
    rig.turn(2)
    (problem,) = rig.answer(asked).problems
    assert problem.endswith(
        "runs containers, which its image needs and none of 2 machines does; an admin sets"
        " `containers = true` for a pool where docker answers"
    )


def test_an_image_goes_where_containers_run() -> None:
    """Of two pools, only the one that runs containers gets images; both get the rest."""
    rig = Rig()
    rig.put(layout.CONFIG, BOTH)
    rig.turn(3)
    boxed = rig.submit("boxed", h100=8, code=IMAGE)
    plain = rig.submit("plain", h100=8)
    rig.turn(2)
    places = {
        job: rig.root.jobs[job].attempt.placement[0].hosts[0].machine  # type: ignore[union-attr]
        for job in (boxed, plain)
    }
    assert rig.root.machines[places[boxed]].pool == "gpu"
    assert rig.root.machines[places[plain]].pool == "plain"


def test_a_machine_whose_engine_is_gone_takes_no_image() -> None:
    """The agent's report overrides the pool's settings until the agent reports otherwise."""
    rig = Rig()
    rig.put(layout.CONFIG, CONFIG.replace("count = 2", "count = 1\ncontainers = true"))
    rig.turn(3)
    (machine,) = rig.root.machines
    says(rig, machine, "no")
    rig.turn(2)
    job = rig.submit("boxed", h100=8, code=IMAGE)
    rig.turn(5)
    assert rig.phase(job) == "queued"
    says(rig, machine, "true")
    rig.until(lambda: rig.phase(job) == "running")
