"""What every host of an agent works with: handed from the agent to each, all by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bastion.agent.errands import Errands
from bastion.agent.home import Home
from bastion.agent.host.claim import Launches
from bastion.agent.instructions import Instructions
from bastion.agent.keeper.port import Keeper, Spool
from bastion.agent.report.bells import Bells
from bastion.agent.settings import AgentSettings
from bastion.store.port import ObjectStore
from bastion.value import value


class KeeperAndSpool(Keeper, Spool, Protocol):
    """A keeper, and where the logs of its attempts lie."""


@value
class Surroundings:
    """The agent's parts, as a host sees them."""

    store: ObjectStore
    keeper: KeeperAndSpool
    errands: Errands
    bells: Bells
    instructions: Instructions
    home: Home
    settings: AgentSettings
    launches: Launches
    nonce: Callable[[], str]
    """A fresh `write_id` each time."""
    port: Callable[[], int]
    """Returns a free port."""
    moment: Callable[[], int]
    """A number that grows with time, to name what is kept now."""
    say: Callable[[str], None]
    """Takes one line for the agent's log."""
