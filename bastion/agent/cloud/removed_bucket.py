"""
`RemovedBucket`: when an agent ends because the folder of its bucket was deleted.

Only a deletion reported by the kernel counts: a folder that was moved, or whose disk was unmounted,
may come back. If something runs, the agent and its keeper stay for as long as it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from bastion.agent.keeper.port import Keeper, Running
from bastion.store.folder.watch import REMOVED_S, Watch

_LOOK_S = 5.0
"""Between two queries to the keeper."""


class RemovedBucket:
    """
    The end of an agent without a bucket.

    Args:
        watch: Reports that the bucket was deleted.
        keeper: Lists what runs here.
        say: Writes one line to the agent's log.
    """

    def __init__(self, watch: Watch, keeper: Keeper, say: Callable[[str], None]) -> None:
        self._watch = watch
        self._keeper = keeper
        self._say = say
        self._look_at: float | None = None
        self.is_due = False
        """Whether the agent ends now: the bucket is permanently gone, and nothing runs here."""

    def turn(self, now: float) -> None:
        """Check once the bucket has been gone for a minute, and then every few seconds."""
        if not self._watch.is_removed():
            self._look_at = None
        elif self._look_at is None:
            self._look_at = now + REMOVED_S
        elif now >= self._look_at:
            self._look_at = now + _LOOK_S
            self.is_due = not any(isinstance(at, Running) for at in self._keeper.attempts())
            if self.is_due:
                self._say("the bucket's folder was deleted and nothing runs here: the agent ends")
