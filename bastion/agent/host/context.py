"""The agent's parts that every host uses, passed by name."""

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
from bastion.agent.usage.series import Holding, HostSeries
from bastion.records.reports.facts import HostFact
from bastion.store.port import ObjectStore
from bastion.value import value


class KeeperAndSpool(Keeper, Spool, Protocol):
    """A keeper, and the folder with the logs of its attempts."""


@value
class Surroundings:
    """The agent's parts, as a host uses them."""

    store: ObjectStore
    keeper: KeeperAndSpool
    errands: Errands
    bells: Bells
    instructions: Instructions
    home: Home
    settings: AgentSettings
    launches: Launches
    nonce: Callable[[], str]
    """Returns a fresh `write_id` each time."""
    port: Callable[[], int]
    """Returns a free port."""
    moment: Callable[[], int]
    """Returns a number that grows with time, to name a saved output."""
    say: Callable[[str], None]
    """Writes one line to the agent's log."""
    series: Callable[[HostFact, str, Holding | None, float], HostSeries | None]
    """Returns the samples of a host that runs, by its key, what it holds and when it started."""
