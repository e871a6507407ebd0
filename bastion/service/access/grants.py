"""
Who may do what under a root: least privilege, in no cloud's words.

Identity is the path of what one writes, so a right is always one to a prefix. Everything that users
and agents write is create-only: nothing that was written before can be changed or deleted by them.
What agents obey (instructions, start barriers) only the bastion writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from bastion.records import layout
from bastion.value import value


class Right(StrEnum):
    """What one may do with the objects below a prefix."""

    READ = "read"
    """Read and list; without the list Google and Amazon call what is absent forbidden."""
    CREATE = "create"
    """Write where nothing is."""
    WRITE = "write"
    """Read, list, write, replace and delete."""


@value
class Grant:
    """One right of one identity."""

    role: str
    """Of the identity, in our words: bastion, agent, agent of gpu, admin, user ada."""
    principal: str
    """The identity, in the cloud's words."""
    right: Right
    prefix: str
    """Below the root, ending in a slash; empty for all of it."""


@value
class People:
    """Who is who: names of ours on the left, identities of the cloud on the right."""

    bastion: str
    agents: tuple[str, ...] = ()
    """Of machines of any pool: each of them may write what every machine may."""
    pool_agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By pool: of its machines, which write only what is its pool's."""
    admins: tuple[str, ...] = ()
    users: Mapping[str, str]
    """By the name that the quota file has."""


_POOL_CREATES = (layout.RUNS, layout.MACHINES, layout.BELLS)
"""What an agent writes below its own pool."""
_POOL_OBEYS = layout.INSTRUCTIONS
_AGENTS_CREATE = (layout.LOGS, layout.OUTPUTS)
"""What an agent writes below the project of its job: a job leaves its pool, its logs do not."""
_AGENTS_READ = (*_AGENTS_CREATE, layout.BARRIERS, layout.SPECS, layout.BUNDLES)
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
)
"""
The queue, its reasons and its history are common knowledge; what others ask for is not, and what
jobs keep is their project's.
"""


def grants(people: People, members: Mapping[str, Iterable[str]]) -> tuple[Grant, ...]:
    """
    Every right that `people` need, `members` being the users of each project.

    Users of whom no identity is known get none: `unknown` names them.
    """
    found = [_grant("bastion", people.bastion, Right.WRITE, "")]
    for agent in people.agents:
        found += _of_agent("agent", agent, "")
    for pool, agents in sorted(people.pool_agents.items()):
        for agent in agents:
            found += _of_agent(f"agent of {pool}", agent, f"{pool}/")
    for admin in people.admins:
        found += [_grant("admin", admin, Right.WRITE, prefix) for prefix in _ADMINS_WRITE]
        found.append(_grant("admin", admin, Right.READ, ""))
    for user in sorted({user for users in members.values() for user in users}):
        if user in people.users:
            projects = sorted(project for project, users in members.items() if user in users)
            found += _of_user(user, people.users[user], projects)
    return tuple(found)


def may(given: Iterable[Grant], principal: str, right: Right, key: str) -> bool:
    """Whether `given` lets `principal` use `right` on the object at `key`, below the root."""
    return any(
        grant.principal == principal
        and grant.right in (right, Right.WRITE)
        and key.startswith(grant.prefix)
        for grant in given
    )


def unknown(people: People, members: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """The members of projects of whom no identity is known."""
    every = {user for users in members.values() for user in users}
    return tuple(sorted(every - people.users.keys()))


def _of_agent(role: str, principal: str, pool: str) -> Iterator[Grant]:
    """The rights of an agent; `pool` is the folder of its pool, empty for all pools."""
    own = [prefix + pool for prefix in _POOL_CREATES]
    for prefix in (*own, *_AGENTS_CREATE):
        yield _grant(role, principal, Right.CREATE, prefix)
    for prefix in (*own, _POOL_OBEYS + pool, *_AGENTS_READ):
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
