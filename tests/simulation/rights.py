"""Who may do what in the simulated bucket: the policies that `setup` prints, asked at each call."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from bastion.errors import StoreRefusedError
from bastion.machine_name import pool_of
from bastion.service.access.grants import Grant, People, Right, grants, may
from tests.simulation.baton import Baton

PROJECTS = {"ann": "blue", "ben": "blue", "cat": "red", "mal": "green"}
"""Which project each user is in."""
ADMIN = "adm"
"""The user that changes machines."""
BASTIONS = ("north", "south", "east")
AgentRights = Callable[[str, str], People]
"""Makes of a pool and a principal the people among whom that agent has its rights."""


def of_pool(pool: str, principal: str) -> People:
    """An agent that has the rights of its own pool."""
    return People(bastion="bastion", pool_agents={pool: (principal,)}, users={})


def of_every_pool(pool: str, principal: str) -> People:
    """An agent that has the rights of every pool, as without accounts of their own."""
    return People(bastion="bastion", agents=(principal,), users={})


class Rights:
    """
    The rights of the actors of one run.

    Args:
        agents: Which rights an agent has.
        strangers: Actors that may be refused: a program of ours that is breaks a promise.
        fail: Takes what a program of ours was refused.
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
        Return when the running actor may use `right` on `key`.

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
