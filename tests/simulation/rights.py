"""Permissions in the simulated bucket: the policies that `setup` prints, checked at each call."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from bastion.errors import StoreRefusedError
from bastion.machine_name import pool_of
from bastion.service.access.grants import Grant, People, Right, grants, may
from tests.simulation.baton import Baton

PROJECTS = {"ann": "blue", "ben": "blue", "cat": "red", "mal": "green"}
"""The project of each user."""
ADMIN = "adm"
"""The user that changes machines."""
BASTIONS = ("north", "south", "east")
AgentRights = Callable[[str, str], People]
"""Returns the people among whom an agent has its permissions, for a pool and a principal."""


def of_pool(pool: str, principal: str) -> People:
    """Return an agent that has the permissions of its own pool."""
    return People(bastion="bastion", pool_agents={pool: (principal,)}, users={})


def of_every_pool(pool: str, principal: str) -> People:
    """Return an agent that has the permissions of every pool, as without separate accounts."""
    return People(bastion="bastion", agents=(principal,), users={})


class Rights:
    """
    The permissions of the actors of one run.

    Args:
        agents: The permissions of an agent.
        strangers: Actors that may be refused; any other refused program breaks a promise.
        fail: Called with what one of our programs was refused.
    """

    def __init__(
        self,
        baton: Baton,
        *,
        agents: AgentRights,
        strangers: tuple[str, ...],
        fail: Callable[[str], None],
    ) -> None:
        self._baton = baton
        self._agents = agents
        self._strangers = strangers
        self._fail = fail
        self._given: dict[str, tuple[Grant, ...]] = {}

    def check(self, right: Right, key: str) -> None:
        """
        Raise unless the running actor may use `right` on `key`.

        Raises:
            StoreRefusedError: It may not.
        """
        actor = self._baton.actor
        given = self._given.get(actor)
        if given is None:
            given = self._given[actor] = self._of(actor)
        if may(given, actor, right, key):
            return
        if not actor.startswith(self._strangers or ("\0",)):
            self._fail(f"{actor} may not {right} {key!r}")
        raise StoreRefusedError(f"{actor} may not {right} {key!r}")

    def _of(self, actor: str) -> tuple[Grant, ...]:
        _, is_agent, machine = actor.partition("@")
        if is_agent:
            return grants(self._agents(pool_of(machine), actor), {})
        if actor in BASTIONS:
            return grants(People(bastion=actor, users={}), {})
        return _of_user(actor)


@lru_cache(maxsize=64)
def _of_user(user: str) -> tuple[Grant, ...]:
    if user == ADMIN:
        return grants(People(bastion="bastion", users={}, admins=(user,)), {})
    projects = {PROJECTS[user]: [user]} if user in PROJECTS else {}
    return grants(People(bastion="bastion", users={user: user}), projects)
