"""
Directed schedules: for every mutant, the one fault for which its safeguard matters.

Each is the scenario with a single fate, chosen by actor, operation and key, so it means the same
whatever else changes in the product. The seed of a storm means something else after any change.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.records.keys import layout
from tests.simulation.away import away_from
from tests.simulation.chains import chains
from tests.simulation.clocks import all_step
from tests.simulation.clouds import kept_for_ever, made_late, mute_host, old_lists
from tests.simulation.fates import Calm, Choice, Fate, Fates
from tests.simulation.hostile import forged_end, meddling
from tests.simulation.hosts import long_cut
from tests.simulation.mischief import linked, looped
from tests.simulation.poor import all_poor
from tests.simulation.processes import Parts
from tests.simulation.scenario import calm, newcomer, quitter
from tests.simulation.sweeps import sweeps
from tests.simulation.unreadable import unreadable_calm
from tests.simulation.world import World

Schedule = Callable[[int, Parts], World]


def _with(fates: Callable[[], Fates] | None = None, *, bastions: int = 1) -> Schedule:
    def build(seed: int, parts: Parts) -> World:
        return calm(seed, parts, fates=fates() if fates else None, bastions=bastions)

    return build


def _told(fate: Fate) -> Schedule:
    """Return jobs with webhooks, one of which is to receive its first notification of an end."""
    return lambda seed, parts: chains(seed, parts, fates=Choice("north", "post", ".ended.", fate))


def _quits(seed: int, parts: Parts) -> World:
    return quitter(seed, parts, fates=Choice("agent@", "create", "/claim", Fate.PAUSE))


SCHEDULES: dict[str, Schedule] = {
    # A leader resumes in the middle of a commit; by then a standby leads.
    "412 read as mine": _with(
        lambda: Choice("north", "swap", "state/root.json", Fate.PAUSE, nth=30), bastions=2
    ),
    # The claim was won, and the answer is lost.
    "412 read as lost": _with(lambda: Choice("agent@", "create", "/claim", Fate.UNANSWERED)),
    # The leader dies between reading a request and the commit that would contain it.
    "requests deleted before the commit": _with(
        lambda: Choice("north", "delete", "inbox/blue/", Fate.CRASH_AFTER)
    ),
    # The leader dies before it commits what it would do.
    "acting before the commit": _with(
        lambda: Choice("north", "swap", "state/root.json", Fate.CRASH_BEFORE, nth=30)
    ),
    # An agent resumes before its claim; in the meantime its attempt was cancelled and revoked.
    "no claim register": _quits,
    # A request arrives for a second time, long after it was answered.
    "no request dedupe": _with(lambda: Choice("cat", "create", "inbox/", Fate.OVERDUE, nth=5)),
    # Preempted processes continue during their grace period.
    "devices freed before the end is known": _with(),
    # A leader resumes between its check and its write; by then a standby leads.
    "unconditional root write after a lock check": _with(
        lambda: Choice("north", "swap", "state/root.json", Fate.PAUSE, nth=30), bastions=2
    ),
    # A leader resumes before it lists machines; another one has created a machine by then.
    "naive orphan deletion": lambda seed, parts: newcomer(
        seed, parts, fates=Choice("north", "list machines", "", Fate.PAUSE)
    ),
    # The agent resumes, as for claims, and claims what was stopped.
    "no revocation of an unclaimed attempt": _quits,
    # In every gang, there is a moment at which not all of its hosts are claimed.
    "no start barrier": _with(),
    # One write of an instruction fails, and the next one overtakes it.
    "instruction numbers chosen when writing": _with(
        lambda: Choice("north", "create", layout.INSTRUCTIONS, Fate.REFUSED, nth=2)
    ),
    # A job that others wait for fails once, and is retried.
    "ends of attempts told as ends of jobs": lambda seed, parts: chains(seed, parts, fates=Calm()),
    # Tasks end.
    "ended tasks counted in a later commit": lambda seed, parts: sweeps(seed, parts, fates=Calm()),
    # The leader dies between the commit of an end and the first notification of it.
    "notifications kept in memory": _told(Fate.CRASH_BEFORE),
    # A webhook cannot be reached once.
    "what was sent is taken for told": _told(Fate.REFUSED),
    # The folder of the bucket disappears while jobs end.
    "a missing root is made anew": lambda seed, parts: away_from(30.0, 80.0, seed, parts),
    "what a missing root was told is taken for written": lambda seed, parts: away_from(
        30.0, 80.0, seed, parts
    ),
    # Some requests and bells cannot be read.
    "a refusal passes for an outage": unreadable_calm,
    "one unreadable object stands for the store": unreadable_calm,
    # A machine of another pool ends every host that it sees.
    "agents have the rights of every pool": forged_end,
    "a machine is believed about every host": forged_end,
    # A member cancels the jobs of others, and writes an invalid request.
    "a verb counts as the owner's of its target": meddling,
    "a request of nonsense passes for an outage": meddling,
    # Each machine is poor for a while from its start.
    "what a machine cannot start is told as a failure": all_poor,
    "that a machine is at fault is not told": all_poor,
    # Jobs put links into their folders while they run.
    "output is kept through links": linked,
    "a report is read through links": linked,
    "an odd file ends the agent": looped,
    # Each host is cut off for longer than its permit while jobs run there.
    "a host that is not listed is taken for gone": long_cut,
    "a silent host is taken for off": long_cut,
    # A zone is sold out, and the create that was in doubt still lands.
    "a machine that was refused is never looked for": made_late,
    "a list that lags is believed": old_lists,
    # One host of a slice has a claim while the agent of the other never starts.
    "a host of a slice is deleted by itself": mute_host,
    "a request that is kept is waited for without end": kept_for_ever,
    # All clocks go back ten days while jobs run.
    "a machine counts seconds by its date": all_step,
    "a bastion counts seconds by its date": all_step,
}
"""By the name of the mutant."""
