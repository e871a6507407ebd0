"""Clouds: what providers do to machines, and what is left in the end."""

from __future__ import annotations

import pytest

from bastion.service.draft.machines.deaf import MUTE_S
from tests.simulation.clouds import clouds, killed, killed_at_a_queue, queues
from tests.simulation.fates import Choice, Fate
from tests.simulation.final_records import OTHERS, PORTION, PROVE
from tests.simulation.hosts import killed_amid_cuts
from tests.simulation.tended import closed, forsaken, killed_amid_spot, spot, tended


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_in_a_cloud(seed: int) -> None:
    """Zones run dry, lists lag, deletes are not done: no job and no machine is lost or left."""
    clouds(seed).run()


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_for_queued_slices(seed: int) -> None:
    """A slice is asked for, made and deleted as a whole, however long its request is kept."""
    queues(seed).run()


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_where_machines_are_taken_and_closed(seed: int) -> None:
    """Spot machines are announced to be taken, vanish, or lose their agents; admins close some."""
    spot(seed).run()


@pytest.mark.parametrize("seed", range(OTHERS))
def test_invariants_hold_where_hosts_are_closed(seed: int) -> None:
    """Your own hosts are cut off while admins cordon, drain and open them."""
    tended(seed).run()


def test_a_machine_whose_agent_is_dead_is_given_up() -> None:
    """Only its silence shows it: after an hour its job runs elsewhere, and it is deleted."""
    world = forsaken(1)
    world.run()
    assert world.baton.now > MUTE_S
    told = [event.text for event in world.invariants.events if event.what == "machine deaf"]
    assert len(told) == 1


def test_a_gang_waits_until_its_machines_are_opened() -> None:
    """A gang that is submitted later gets none of a cordoned machine."""
    world = closed(1)
    world.run()
    assert world.baton.now > 60.0


KILLED = {
    "cloud": killed,
    "queue": killed_at_a_queue,
    "spot": killed_amid_spot,
    "hosts": killed_amid_cuts,
}
"""A world of each kind of provider, in which the bastion meets a chosen fate."""
OPERATIONS = ("create machine", "list machines", "delete machine")
DEATHS = (Fate.CRASH_BEFORE, Fate.CRASH_AFTER, Fate.UNANSWERED)


@pytest.mark.parametrize("fate", DEATHS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", KILLED)
def test_a_bastion_may_die_at_every_call_of_a_provider(
    kind: str, operation: str, fate: Fate
) -> None:
    """The next one requests the same name again, and nothing is created twice or left over."""
    chosen = Choice("north", operation, "", fate, nth=1)
    KILLED[kind](1, chosen).run()
    assert chosen.is_met


@pytest.mark.prove
@pytest.mark.parametrize("fate", DEATHS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", KILLED)
def test_a_bastion_may_die_at_any_later_call(kind: str, operation: str, fate: Fate) -> None:
    """The same holds for the first thirty calls, each in a separate run; some runs have fewer."""
    met = 0
    for nth in range(1, 31):
        chosen = Choice("north", operation, "", fate, nth=nth)
        KILLED[kind](nth, chosen).run()
        met += chosen.is_met
    assert met >= 2


@pytest.mark.prove
@pytest.mark.parametrize("first", range(0, PROVE // 4, PORTION))
def test_invariants_hold_in_many_clouds(first: int) -> None:
    """The same holds for many clouds of each kind."""
    for seed in range(first, first + PORTION):
        clouds(seed).run()
        queues(seed).run()
        spot(seed).run()
        tended(seed).run()
