"""A cluster in the middle of a cycle: borrowers run, and a project with a share waits."""

from __future__ import annotations

from random import Random

from bastion.scheduler.phases.survey import survey
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.memory.memory import Memory
from bastion.scheduler.state.memory.policy_choice import chosen
from tests.bastion.scheduler.world import World, machines_of, quota_of

QUOTA = quota_of({"gpu": 64}, {"A": {"gpu": 0.25}, "B": {"gpu": 0.25}, "C": {"gpu": 0.5}})


def surveyed(seed: int) -> Draft:
    """Return a world in which A and B hold eight machines of eight with small jobs, and C waits."""
    random, world = Random(seed), World(QUOTA, machines_of(8, gpu=8))
    for number in range(30):
        world.ask("AB"[number % 2], gpu=random.choice((1, 1, 2, 3, 5)))
    world.cycle()
    world.pass_time(3_600)
    for _ in range(3):
        world.ask("C", gpu=random.choice((1, 4, 8)), replicas=random.choice((1, 2, 3)))
    draft = Draft(world.snapshot(), world.now, chosen(QUOTA.scheduler), Memory())
    survey(draft)
    return draft
