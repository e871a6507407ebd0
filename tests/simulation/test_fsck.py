"""What storms leave behind is whole: the audit holds real histories to every rule."""

from __future__ import annotations

import pytest

from bastion.agent.attempt_key import host_of
from bastion.records import layout
from bastion.service.fsck import findings
from bastion.service.survey import survey
from tests.simulation.__main__ import WORLDS
from tests.simulation.processes import SOUND
from tests.simulation.world import World


def broken(world: World) -> list[str]:
    """What the audit finds in the bucket when all is over."""
    world.run()
    # Of a machine that died with logs that nobody had, the audit tells, and is right.
    lost = tuple(_logs_of(key) for key in world.invariants.waited_for_in_vain)
    return [
        f"{each.rule} {each.key}: {each.text}"
        for each in findings(survey(world.bucket))
        if not (each.rule == "logs" and each.key.startswith(lost))
    ]


def _logs_of(key: str) -> str:
    of = host_of(key)
    assert of is not None
    return layout.log(
        of.project, of.job, of.attempt, replica=of.replica, host=of.host, process=0
    ).removesuffix("p0/")


@pytest.mark.parametrize("kind", WORLDS)
def test_the_bucket_is_whole_after_a_storm(kind: str) -> None:
    """Crashes, lost answers and duelling leaders leave nothing that breaks a rule."""
    assert broken(WORLDS[kind](1, SOUND)) == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(200))
def test_the_bucket_is_whole_after_many_storms(seed: int) -> None:
    """The same for many seeds."""
    assert broken(list(WORLDS.values())[seed % len(WORLDS)](seed, SOUND)) == []
