"""What a job has cost: device hours and money of its attempts, including running ones."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.client.look.views import JobView
from bastion.history.attempt_row import AttemptRow
from bastion.history.prices import price_in_force
from bastion.value import value
from bastion.web.reading.board import COUNTED, Board, Row
from bastion.web.reading.trail import Happened

_HOUR_S = 3600.0
_HOLDS = ("starting", "running", "stopping")


@value
class Spent:
    """The sums of some attempts."""

    device_h: float = 0.0
    borrowed_h: float = 0.0
    """The part of it on what other projects lent."""
    lost_h: float = 0.0
    """The part of it that was wasted by preemptions, failures and restarts of elastic jobs."""
    cost: float | None = None
    """None: no price is known."""
    unpriced_h: float = 0.0
    """Hours of machines or devices that `cost` omits."""


def spent_of(rows: Sequence[AttemptRow]) -> Spent:
    """Return the sums of attempts that have ended."""
    return Spent(
        device_h=sum(row.guaranteed_device_s + row.borrowed_device_s for row in rows) / _HOUR_S,
        borrowed_h=sum(row.borrowed_device_s for row in rows) / _HOUR_S,
        lost_h=sum(row.lost_device_s or 0.0 for row in rows) / _HOUR_S,
        cost=_sum([row.cost for row in rows]),
        unpriced_h=sum(
            row.guaranteed_device_s + row.borrowed_device_s for row in rows if row.cost is None
        )
        / _HOUR_S,
    )


def spent_now(job: JobView, happened: Happened, board: Board) -> Spent | None:
    """Return what the attempt of `job` that holds devices has spent so far; None if none does."""
    if job.phase not in _HOLDS or job.counts:
        return None
    admitted = [
        each.at for each in happened.events if each.job == job.id and each.what == _HOLDS[0]
    ]
    begin = admitted[-1] if admitted else job.started_at
    if begin is None:
        return None
    hours = max(0.0, board.as_of - begin) / _HOUR_S
    device_h = hours * sum(n for kind, n in job.units.items() if kind not in COUNTED)
    price = _price_per_hour(job, board)
    return Spent(
        device_h=device_h,
        borrowed_h=device_h if job.job_class == "borrowed" else 0.0,
        cost=None if price is None else price * hours,
        unpriced_h=device_h if price is None else 0.0,
    )


def together(parts: Sequence[Spent]) -> Spent:
    """Return the sum of `parts`."""
    return Spent(
        device_h=sum(part.device_h for part in parts),
        borrowed_h=sum(part.borrowed_h for part in parts),
        lost_h=sum(part.lost_h for part in parts),
        cost=_sum([part.cost for part in parts]),
        unpriced_h=sum(part.unpriced_h for part in parts),
    )


def price_of(pool: Row, at: float) -> float:
    """Return the price of a machine of a published pool per hour at that time; 0 if unknown."""
    own = float(pool.get("price_per_hour") or 0.0)
    kind, terms = str(pool.get("instance_type") or ""), str(pool.get("terms") or "on_demand")
    return price_in_force(own, kind, terms, at)


def _price_per_hour(job: JobView, board: Board) -> float | None:
    """Return the price of its devices per hour: for each machine the part that it holds."""
    total = 0.0
    for row in board.machines:
        if row["name"] not in job.machines:
            continue
        price = price_of(board.pools.get(row.get("pool", ""), {}), board.as_of)
        has = {kind: n for kind, n in (row.get("resources") or {}).items() if kind not in COUNTED}
        held = (row.get("held") or {}).get(job.id) or {}
        if not price or not held or not has:
            return None
        total += price * max(len(held.get(kind, ())) / n for kind, n in has.items())
    return total or None


def _sum(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None
