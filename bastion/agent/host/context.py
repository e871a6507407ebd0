"""The agent's parts that every host uses, passed by name."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Protocol, TypeVar

from bastion.agent.errands import Errands
from bastion.agent.home import Home
from bastion.agent.host.claim import Launches
from bastion.agent.host.stage import Stage
from bastion.agent.instructions import Instructions
from bastion.agent.keeper.port import AttemptStart, Keeper, KeeperGoneError, Spool
from bastion.agent.report.bells import Bells
from bastion.agent.settings import AgentSettings
from bastion.agent.usage.series import Holding, HostSeries
from bastion.errors import BastionError
from bastion.records.reports.facts import HostFact
from bastion.store.port import ObjectStore
from bastion.value import value

_Host = TypeVar("_Host", bound="Asker")


class KeeperAndSpool(Keeper, Spool, Protocol):
    """A keeper, and the folder with the logs of its attempts."""


Done = Callable[[BastionError | None], None]
"""Receives why the keeper refused, or None."""


class Asker(Protocol):
    """A host, as far as the answers to it need it."""

    stage: Stage

    def surprise(self, error: Exception, now: float) -> None:
        """Contain an internal error."""
        ...


class KeeperRequests:
    """
    The requests of one turn's hosts to the keeper, sent together at its end.

    A start needs a sync of the keeper's journal, and the keeper makes one sync for all requests
    that it has read. Sent one by one, ten starts would wait for ten syncs.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._starts: list[tuple[AttemptStart, Done]] = []
        self._forgets: list[tuple[str, Done]] = []

    def start(self, attempt: AttemptStart, done: Done) -> None:
        """Request the start of `attempt`."""
        self._starts.append((attempt, done))

    def forget(self, key: str, done: Done) -> None:
        """Request that the keeper forget an attempt that is over."""
        self._forgets.append((key, done))

    def send(self, hosts: MutableMapping[str, _Host], now: float) -> None:
        """
        Send what is queued, and pass the answers to `hosts`; hosts that are gone then are removed.

        Raises:
            KeeperGoneError: No answer.
        """
        starts, self._starts = self._starts, []
        forgets, self._forgets = self._forgets, []
        answers = self._keeper.start_all([attempt for attempt, _ in starts]) if starts else ()
        for (attempt, done), refused in zip(starts, answers, strict=True):
            _answer(hosts, attempt.key, done, refused, now)
        answers = self._keeper.forget_all([key for key, _ in forgets]) if forgets else ()
        for (key, done), refused in zip(forgets, answers, strict=True):
            _answer(hosts, key, done, refused, now)


def _answer(
    hosts: MutableMapping[str, _Host],
    key: str,
    done: Done,
    refused: BastionError | None,
    now: float,
) -> None:
    host = hosts[key]
    try:
        done(refused)
    except KeeperGoneError:
        raise
    except Exception as error:  # noqa: BLE001 - one bad host harms itself alone
        host.surprise(error, now)
    if host.stage is Stage.GONE:
        del hosts[key]


@value
class Surroundings:
    """The agent's parts, as a host uses them."""

    store: ObjectStore
    keeper: KeeperAndSpool
    requests: KeeperRequests
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
    """Returns the samples of a running host, from its key, what it holds and when it started."""
