"""
Whether the state taken over from earlier cycles equals the state made from nothing.

This module must not change either.
"""

from __future__ import annotations

from collections.abc import Mapping

from bastion.scheduler.queue.order import place_of
from bastion.scheduler.state.draft import Draft


def difference(carried: Draft, fresh: Draft) -> str:
    """Return the first difference between two drafts that were only surveyed, in words."""
    theirs = _facts(fresh)
    for name, fact in _facts(carried).items():
        if fact != theirs[name]:
            return f"{name}: carried {fact!r}, from nothing {theirs[name]!r}"
    return ""


def _facts(draft: Draft) -> Mapping[str, object]:
    rooms, shelves = draft.capacity.rooms, draft.capacity.shelves.values()
    names, backlogs = sorted(draft.shares.names()), draft.backlogs.items()
    aside = ((entry, reason) for _, found, reason in draft.lines_aside for entry in found)
    return {
        "free in the tiers": draft.capacity.tier_free,
        "machines": {room.name: (room.keep(), room.opened, room.full, room.bad) for room in rooms},
        "machines to make": {
            each.name: (each.left, each.could_make, each.made) for each in shelves
        },
        "what runs": [
            (each.name, each.ids, each.job_class, each.cover, each.charge, each.left)
            for each in draft.running.values()
        ],
        "held": {name: draft.shares.held(name) for name in names},
        "on machines": {
            machine: [running.name for running in found]
            for machine, found in draft.occupancy.on.items()
            if found
        },
        "lowest priority": {name: draft.lowest_priority(name) for name in names},
        "set aside": draft.aside,
        "lines set aside": {entry.name: reason for entry, reason in aside},
        "backlogs": {
            name: (each.oldest, each.first_asked, len(each.shapes)) for name, each in backlogs
        },
        "in line": {
            project: [(line.user, [*map(place_of, line.gangs)]) for line in lines]
            for project, lines in draft.lines.items()
        },
    }
