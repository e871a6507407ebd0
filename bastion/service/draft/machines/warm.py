"""Pools in which an admin keeps machines ready for a while, although they are idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bastion.machine import Pool, Warm
from bastion.records.requests.machine_request import WarmRequest
from bastion.service.draft.root_draft import Draft
from bastion.spec.values.quantity import text_of_seconds
from quota.choice import choose


def keep_warm(draft: Draft, body: WarmRequest, pools: Mapping[str, Pool], *, by: str) -> str:
    """Keep as many machines of a pool as `body` says; return why that is impossible, or nothing."""
    pool = pools.get(body.pool)
    if pool is None:
        return f"{body.pool}: no such pool, {choose(body.pool, sorted(pools))}"
    wanted = body.machines * pool.hosts
    if wanted > pool.max_machines:
        most = pool.max_machines // pool.hosts
        return f"{pool.name}: {body.machines} is more than it may have, which is {most}"
    warm = {name: each for name, each in draft.warm.items() if name != pool.name}
    if body.machines:
        warm[pool.name] = Warm(machines=wanted, until=draft.now + body.for_s, by=by)
    draft.set_warm(warm)
    how_long = f" for {text_of_seconds(body.for_s)}" if body.machines else ""
    draft.tell(what="pool warm", text=f"{pool.name}: {body.machines} are kept{how_long}, by {by}")
    return ""


def warmed(draft: Draft, pools: Mapping[str, Pool]) -> dict[str, Pool]:
    """Return `pools` with their warm machines as the minimum, and forget expired wishes."""
    over = [name for name, warm in draft.warm.items() if draft.now >= warm.until]
    if over:
        draft.set_warm({name: each for name, each in draft.warm.items() if name not in over})
    for name in over:
        draft.tell(
            what="pool warm", text=f"{name}: no machines are kept any longer: the time is up"
        )
    return {name: _warmed(pool, draft.warm.get(name)) for name, pool in pools.items()}


def _warmed(pool: Pool, warm: Warm | None) -> Pool:
    if warm is None:
        return pool
    least = min(warm.machines, pool.max_machines)
    return replace(pool, min_machines=max(pool.min_machines, least))
