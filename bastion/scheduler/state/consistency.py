"""
Whether the state taken over from earlier cycles equals the state made from nothing.

This module must not change either.
"""

from __future__ import annotations

from collections.abc import Iterator

from bastion.scheduler.queue.order import place_of
from bastion.scheduler.state.draft import Draft


def difference(carried: Draft, fresh: Draft) -> str:
    """Return the first difference between two drafts that were only surveyed, in words."""
    theirs = dict(_facts(fresh))
    for name, fact in _facts(carried):
        if fact != theirs[name]:
            return f"{name}: carried {fact!r}, from nothing {theirs[name]!r}"
    return ""


def _facts(draft: Draft) -> Iterator[tuple[str, object]]:
    yield "free in the tiers", draft.capacity.tier_free
    yield (
        "machines",
        {
            room.name: (room.keep(), room.opened, room.full, room.bad)
            for room in draft.capacity.rooms
        },
    )
    yield (
        "machines to make",
        {
            shelf.name: (shelf.left, shelf.could_make, shelf.made)
            for shelf in draft.capacity.shelves.values()
        },
    )
    yield (
        "what runs",
        [
            (
                running.name,
                running.ids,
                running.job_class,
                running.cover,
                running.charge,
                running.left,
            )
            for running in draft.running.values()
        ],
    )
    yield "held", {name: draft.shares.held(name) for name in sorted(draft.shares.names())}
    yield (
        "on machines",
        {
            machine: [running.name for running in found]
            for machine, found in draft.occupancy.on.items()
            if found
        },
    )
    yield "lowest priority", {name: draft.lowest_priority(name) for name in draft.shares.names()}
    yield "set aside", draft.aside
    yield (
        "lines set aside",
        {entry.name: reason for _, found, reason in draft.lines_aside for entry in found},
    )
    backlogs = draft.backlogs.items()
    yield (
        "backlogs",
        {name: (each.oldest, each.first_asked, len(each.shapes)) for name, each in backlogs},
    )
    yield (
        "in line",
        {
            project: [(line.user, [*map(place_of, line.gangs)]) for line in lines]
            for project, lines in draft.lines.items()
        },
    )
