"""The bucket after a storm is whole: the audit checks real histories against every rule."""

from __future__ import annotations

import pytest

from bastion.agent.attempt_key import host_of
from bastion.records.keys import layout
from bastion.service.repair.fsck import findings
from bastion.service.repair.survey import survey
from tests.simulation.__main__ import WORLDS
from tests.simulation.fates import Spoiling
from tests.simulation.processes import SOUND
from tests.simulation.world import World


def broken(world: World) -> list[str]:
    """Return what the audit finds in the bucket at the end, except objects that were spoilt."""
    world.run()
    found = findings(survey(world.bucket))
    spoilt = _spoilt(world)
    told = {each.key for each in found if each.rule == "readable"}
    assert {key for key in spoilt if not key.startswith(layout.INBOX)} <= told
    # The audit rightly reports a machine that died with logs that were not in the bucket.
    lost = tuple(_logs_of(key) for key in world.invariants.waited_for_in_vain)
    return [
        f"{each.rule} {each.key}: {each.text}"
        for each in found
        if not (each.rule == "logs" and each.key.startswith(lost))
        and not (each.rule == "readable" and each.key in spoilt)
        and not _is_of_the_hostile(world, each.key, each.text)
    ]


def _is_of_the_hostile(world: World, key: str, text: str) -> bool:
    """Whether a finding is of an object that a hostile machine wrote below its own pool."""
    pool, project = world.invariants.distrusted, world.invariants.distrusted_project
    return bool(pool) and (f"/{pool}/" in key or f"/{project}/" in key or f"{pool}-" in text)


def _spoilt(world: World) -> set[str]:
    """Return the empty objects that a fate made."""
    if not isinstance(world.fates, Spoiling):
        return set()
    entries = world.bucket.list("", limit=1_000_000)
    return {each.key for each in entries if not each.size and each.key in world.fates.spoilt}


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
    """The same holds for many seeds."""
    assert broken(list(WORLDS.values())[seed % len(WORLDS)](seed, SOUND)) == []
