"""Why a project can never hold what is asked: waiting does not help, only another quota file."""

from __future__ import annotations

from collections.abc import Iterator

from quota.amounts import Amounts
from quota.ledger import closed, reach
from quota.tree import Group, Quota
from quota.value import value

_SHOWN = 3
"""The most walls named in one message, so that it stays one line."""


@value
class Wall:
    """One obstacle that lasts as long as the file has it."""

    why: str
    place: str
    """Its key in the file, and the line."""


@value
class BeyondReach:
    """More of one type than a project can ever hold."""

    project: str
    resource: str
    asked: int
    most: int
    """What it could hold if everything else held nothing."""
    walls: tuple[Wall, ...]
    """Everything that would have to change."""

    def __str__(self) -> str:
        why = "; ".join(wall.why for wall in self.walls[:_SHOWN])
        change = " and ".join(wall.place for wall in self.walls[:_SHOWN])
        more = f" and {len(self.walls) - _SHOWN} more" if len(self.walls) > _SHOWN else ""
        return (
            f"asks for {self.asked} {self.resource}, and {self.project} can never hold more than"
            f" {self.most}: {why}; ask for less, or an admin changes {change}{more}"
        )


def beyond_reach(quota: Quota, project: str, asked: Amounts) -> tuple[BeyondReach, ...]:
    """Return why, for every type under quota of which `project` can never hold `asked`."""
    most = reach(quota, project)
    return tuple(
        BeyondReach(
            project=project,
            resource=resource,
            asked=units,
            most=max(0, most[resource]),
            walls=tuple(_walls(quota, project, resource, units)),
        )
        for resource, units in asked.only(quota.types).items()
        if units > most[resource]
    )


def _walls(quota: Quota, project: str, resource: str, asked: int) -> Iterator[Wall]:
    own = quota.project(project)
    if not own.borrow and own.nominal[resource] < asked:
        why = f"with borrow = false it has only its share of {own.nominal[resource]} {resource}"
        yield Wall(why=why, place=quota.place("project_options", project, "borrow"))
    total = quota.totals[resource]
    if total < asked:
        why = f"the totals are {total} {resource}"
        yield Wall(why=why, place=quota.place("total_resources", resource))
    room = total
    beside = [node.name for node in quota.top()]
    for node in reversed(quota.chain(project)):
        others = [name for name in beside if name != node.name]
        room -= sum(closed(quota, {}, name)[resource] for name in others)
        if room < asked:
            for name in others:
                yield from _keepers(quota, name, resource)
        if node.ceiling[resource] < min(asked, total):
            table = "project_groups" if isinstance(node, Group) else "project_options"
            why = f"the ceiling of {node.name} is {node.ceiling[resource]} {resource}"
            yield Wall(why=why, place=quota.place(table, node.name, "ceiling", resource))
        if isinstance(node, Group):
            room, beside = min(room, node.ceiling[resource]), list(node.members)


def _keepers(quota: Quota, name: str, resource: str) -> Iterator[Wall]:
    """Yield what keeps capacity: `name`, or its members if they keep more than the group does."""
    units = closed(quota, {}, name)[resource]
    group = quota.groups.get(name)
    if group is not None and group.kept[resource] < units:
        for member in group.members:
            yield from _keepers(quota, member, resource)
    elif units:
        table = "project_options" if group is None else "project_groups"
        place = quota.place(table, name, "lend", resource)
        yield Wall(why=f"{name} keeps {units} {resource} that it does not lend", place=place)
