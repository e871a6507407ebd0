"""
What dead keepers of a home have left: processes, and what only an undo removes.

Every program that ends them asks here, so that each finds the same. The caller holds the keeper's
lock. Standard library only.
"""

from __future__ import annotations

from bastion.agent.keeper.attempt.undo import Undo
from bastion.agent.machine import stray_processes as strays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bastion.agent.keeper.journal import Journal


def kill_left(journal: Journal, mark_prefix: str) -> list[Undo]:
    """
    Kill every process of the attempts that have no end; return what must be undone now.

    A program may have overwritten its environment. So the sessions that the journal names are
    killed too. It blocks while a process cannot die.

    Raises:
        OSError: What is left cannot be seen.
    """
    open_entries = {key: entry for key, entry in journal.entries.items() if not entry.end}
    boot = strays.boot_id()
    leaders = [pair for entry in open_entries.values() for pair in entry.sessions(boot)]
    strays.kill_all(mark_prefix, leaders=leaders)
    return [Undo(entry.undo(), mark_prefix + key) for key, entry in open_entries.items()]
