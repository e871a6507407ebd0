"""
The rights of every identity under a root: least privilege, independent of any cloud.

The key of an object names its writer, so every right is on a prefix. Users and agents can only
create objects: they cannot change or delete any. The one exception is the use of a machine, which
its agent replaces and nothing depends on. Only the bastion writes what agents obey (instructions
and start barriers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from bastion.records.keys import layout
from bastion.value import value


class Right(StrEnum):
    """What an identity can do with the objects below a prefix."""

    READ = "read"
    """Read and list: without the right to list, clouds answer 403 for a missing object."""
    CREATE = "create"
    """Create objects, but replace none."""
    WRITE = "write"
    """Read, list, write, replace and delete."""


@value
class Grant:
    """One right of one identity."""

    role: str
    """The role of the identity in Bastion: bastion, agent, agent of gpu, admin, user ada."""
    principal: str
    """The identity, as the cloud names it."""
    right: Right
    prefix: str
    """Relative to the root, with a trailing slash; empty for all of it."""


@value
class People:
    """The cloud's identities of the bastion, its agents, admins and users."""

    bastion: str
    agents: tuple[str, ...] = ()
    """Agents of machines of any pool: each can write for every machine."""
    pool_agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Agents by pool: each can write only for the machines of its pool."""
    admins: tuple[str, ...] = ()
    users: Mapping[str, str]
    """By their names in the quota file."""


_POOL_CREATES = (layout.RUNS, layout.MACHINES, layout.BELLS)
"""Where an agent writes below its own pool."""
_POOL_WRITES = layout.USAGE
"""Where an agent replaces objects below its pool: no decision is ever based on them."""
_POOL_READS = layout.INSTRUCTIONS
_AGENTS_CREATE = (layout.LOGS, layout.OUTPUTS)
"""Where an agent writes below the project of its job: its logs stay if the job changes pools."""
_AGENTS_READ = (*_AGENTS_CREATE, layout.BARRIERS, layout.SPECS, layout.BUNDLES, layout.WHEELS)
_ADMINS_WRITE = (layout.folder_of(layout.QUOTA), layout.folder_of(layout.CONFIG))
_USERS_READ = (
    layout.BUNDLES,
    layout.RESULTS,
    layout.SPECS,
    layout.LOGS,
    layout.folder_of(layout.QUOTA),
    layout.ANSWERS,
    layout.folder_of(layout.ROOT),
    layout.VIEWS,
    layout.HISTORY,
    layout.USAGE,
)
"""
Every user can read the queue, its reasons and its history. In the inbox a user reads only their own
requests, and outputs of jobs are readable within their project.
"""


def grants(people: People, members: Mapping[str, Iterable[str]]) -> tuple[Grant, ...]:
    """
    Return every right that `people` need; `members` are the users of each project.

    A user without an identity in `people` gets no rights: `unknown` lists those users.
    """
    found = [_grant("bastion", people.bastion, Right.WRITE, "")]
    for agent in people.agents:
        found += _of_agent("agent", agent, "")
    for pool, agents in sorted(people.pool_agents.items()):
        for agent in agents:
            found += _of_agent(f"agent of {pool}", agent, f"{pool}/")
    for admin in people.admins:
        found += [_grant("admin", admin, Right.WRITE, prefix) for prefix in _ADMINS_WRITE]
        found.append(_grant("admin", admin, Right.CREATE, layout.ADMINS))
        found.append(_grant("admin", admin, Right.READ, ""))
    for user in sorted({user for users in members.values() for user in users}):
        if user in people.users:
            projects = sorted(project for project, users in members.items() if user in users)
            found += _of_user(user, people.users[user], projects)
    return tuple(found)


def may(given: Iterable[Grant], principal: str, right: Right, key: str) -> bool:
    """Whether `given` lets `principal` use `right` on the object at `key`, relative to the root."""
    return any(
        grant.principal == principal
        and grant.right in (right, Right.WRITE)
        and key.startswith(grant.prefix)
        for grant in given
    )


def unknown(people: People, members: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the members of projects that have no identity in `people`."""
    every = {user for users in members.values() for user in users}
    return tuple(sorted(every - people.users.keys()))


def _of_agent(role: str, principal: str, pool: str) -> Iterator[Grant]:
    """Yield the rights of an agent; `pool` is the folder of its pool, empty for all pools."""
    own = [prefix + pool for prefix in _POOL_CREATES]
    for prefix in (*own, *_AGENTS_CREATE):
        yield _grant(role, principal, Right.CREATE, prefix)
    yield _grant(role, principal, Right.WRITE, _POOL_WRITES + pool)
    for prefix in (*own, _POOL_READS + pool, *_AGENTS_READ):
        yield _grant(role, principal, Right.READ, prefix)


def _of_user(user: str, principal: str, projects: list[str]) -> Iterator[Grant]:
    inboxes = [layout.user_inbox(project, user) for project in projects]
    for prefix in (layout.BUNDLES, *inboxes):
        yield _grant(f"user {user}", principal, Right.CREATE, prefix)
    outputs = [layout.outputs_of(project) for project in projects]
    for prefix in (*_USERS_READ, *outputs, *inboxes):
        yield _grant(f"user {user}", principal, Right.READ, prefix)


def _grant(role: str, principal: str, right: Right, prefix: str) -> Grant:
    return Grant(role=role, principal=principal, right=right, prefix=prefix)
