"""
`python -m tests.simulation --seed N [--world NAME] [--mutant NAME] [--trace]`: replay one run.

Without `--world`, the run is the storm, or the schedule of the mutant. The command prints the
result and, with `--trace`, every step. Equal traces have equal digests.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable

from tests.simulation.away import away
from tests.simulation.baton import SimulationError
from tests.simulation.chains import chains
from tests.simulation.clocks import clocks
from tests.simulation.clouds import clouds, queues
from tests.simulation.hostile import hostile
from tests.simulation.hosts import hosts
from tests.simulation.mischief import mischief
from tests.simulation.mutants import MUTANTS
from tests.simulation.poor import poor
from tests.simulation.processes import SOUND, Parts
from tests.simulation.scenario import calm, comings, duel, slices, spoilt, stormy
from tests.simulation.schedules import SCHEDULES
from tests.simulation.sweeps import sweeps
from tests.simulation.tended import spot, tended
from tests.simulation.unreadable import unreadable
from tests.simulation.watched import watched
from tests.simulation.wild import wild
from tests.simulation.world import World

WORLDS: dict[str, Callable[[int, Parts], World]] = {
    "stormy": stormy,
    "calm": calm,
    "duel": duel,
    "comings": comings,
    "slices": slices,
    "spoilt": spoilt,
    "wild": wild,
    "chains": chains,
    "sweeps": sweeps,
    "watched": watched,
    "away": away,
    "unreadable": unreadable,
    "hostile": hostile,
    "clocks": clocks,
    "poor": poor,
    "mischief": mischief,
    "hosts": hosts,
    "clouds": clouds,
    "queues": queues,
    "spot": spot,
    "tended": tended,
}
"""Every world in which a seed can be replayed, by name."""


def digest(world: World) -> str:
    """Return a digest of the run's whole trace."""
    lines = "\n".join(map(str, world.baton.trace))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def main() -> int:
    """Replay the run that the command line names; return 1 if it breaks an invariant."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", allow_abbrev=False)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--world", choices=sorted(WORLDS), help="by default stormy")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), default="")
    parser.add_argument("--trace", action="store_true", help="print every step")
    said = parser.parse_args()
    where = said.world or said.mutant or "stormy"
    build = {**WORLDS, **SCHEDULES}[where]
    world = build(said.seed, MUTANTS[said.mutant] if said.mutant else SOUND)
    failure: SimulationError | None = None
    try:
        world.run()
    except SimulationError as error:
        failure = error
    say = sys.stdout.write
    if said.trace:
        say("".join(f"{step}\n" for step in world.baton.trace))
    say(
        f"seed {said.seed} in {where}: {len(world.baton.trace)} steps,"
        f" {world.invariants.commits} commits, {world.baton.now:.0f} virtual seconds,"
        f" digest {digest(world)}\n"
    )
    if failure is not None:
        say(f"breaks {failure.name!r}: {failure.text}\n")
    return 1 if failure is not None else 0


if __name__ == "__main__":
    sys.exit(main())
