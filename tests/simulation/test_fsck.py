"""What storms leave behind is whole: the audit holds real histories to every rule."""

from __future__ import annotations

import pytest

from bastion.service.fsck import findings
from bastion.service.survey import survey
from tests.simulation.scenario import calm, comings, duel, slices, stormy
from tests.simulation.world import World

WORLDS = {"calm": calm, "stormy": stormy, "duel": duel, "comings": comings, "slices": slices}


def broken(world: World) -> list[str]:
    """What the audit finds in the bucket when all is over."""
    world.run()
    return [f"{each.rule} {each.key}: {each.text}" for each in findings(survey(world.bucket))]


@pytest.mark.parametrize("kind", WORLDS)
def test_the_bucket_is_whole_after_a_storm(kind: str) -> None:
    """Crashes, lost answers and duelling leaders leave nothing that breaks a rule."""
    assert broken(WORLDS[kind](1)) == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(200))
def test_the_bucket_is_whole_after_many_storms(seed: int) -> None:
    """The same for many seeds."""
    assert broken(list(WORLDS.values())[seed % len(WORLDS)](seed)) == []
