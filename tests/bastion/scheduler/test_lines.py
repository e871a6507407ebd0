"""Lines that are kept from cycle to cycle equal those built from scratch."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random

import pytest

from bastion.job import JobRecord
from bastion.scheduler.queue.lines import Lines
from bastion.scheduler.queue.order import Entry, Standing, place_of, stand
from bastion.scheduler.queue.shape import Shapes
from bastion.spec.request import Request
from quota import Amounts
from tests.bastion.scheduler.world import quota_of

SHAPES = Shapes(quota_of({"gpu": 8}, {"A": {"gpu": 0.5}, "B": {"gpu": 0.5}}))


def waiting(random: Random, name: str) -> Standing:
    """Return a job of one of two projects, two users and three sizes."""
    job = JobRecord(
        id=name,
        project=random.choice("AB"),
        user=random.choice("uv"),
        launch=name,
        ulid=name,
        submitted_at=float(random.randrange(5)),
        queued_at=float(random.randrange(5)),
        request=Request(replicas=1, per_replica=Amounts({"gpu": random.choice((1, 2, 4))})),
    )
    return stand((job,), SHAPES, lambda gang: (float(len(gang)), 0.0))


def made_of(standing: Iterable[Standing]) -> Lines:
    """Return lines in which exactly these gangs wait."""
    lines = Lines()
    lines.make(standing)
    return lines


def facts(lines: Lines) -> object:
    """Return everything that a cycle reads from them."""
    found = lines.by_project()
    backlogs = lines.backlogs
    return (
        {
            name: [(x.own_key, [*map(place_of, x.gangs)]) for x in each]
            for name, each in found.items()
        },
        {name: (backlogs[name].oldest, backlogs[name].first_asked) for name in sorted(backlogs)},
    )


def without(entries: Iterable[Entry], names: Collection[str]) -> list[Entry]:
    """Return those without these names."""
    return [each for each in entries if each.name not in names]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_left_out_of_one_cycle_is_back_in_the_next(seed: int) -> None:
    """A cycle sees lines without some gangs; the next one sees all, with the latest changes."""
    random = Random(seed)
    standing = {f"j{number}": waiting(random, f"j{number}") for number in range(25)}
    lines = made_of(standing.values())
    for turn in range(6):
        out = set(random.sample(sorted(standing), random.randrange(len(standing))))
        lines.leave(
            {
                line: some
                for found in lines.by_project().values()
                for line in found
                if len(some := without(line.entries, out)) < len(line.entries)
            }
        )
        rest = [each for name, each in standing.items() if name not in out]
        assert facts(lines) == facts(made_of(rest))
        for name, each in standing.items():
            seen = lines.get(each.key)
            assert (name not in out) == (seen is not None and each.entry in seen.gangs)
        gone = [standing.pop(name) for name in random.sample(sorted(standing), 3)]
        come = [waiting(random, f"t{turn}-{number}") for number in range(3)]
        standing.update((each.entry.name, each) for each in come)
        lines.change(gone, come)
        assert facts(lines) == facts(made_of(standing.values()))
