"""
The policies that a quota file or the simulator selects by name: one file each, one line each here.

A policy is pure and deterministic, and breaks ties by name.

Orders: `las`, `srtf`, `tiresias`, `max_min`, `optimus`; the last two use `time_share`.
Placements: `best_fit`, `first_fit`, `spread`. The interfaces are in `order`, `admission` and
`preemption`; a placement is a `PlacementPolicy`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bastion.scheduler.placement.candidates import PlacementPolicy
from bastion.scheduler.policies.admission import Admission, admit_all, load_limit
from bastion.scheduler.policies.best_fit import best_fit
from bastion.scheduler.policies.first_fit import first_fit
from bastion.scheduler.policies.las import attained
from bastion.scheduler.policies.max_min import max_min
from bastion.scheduler.policies.optimus import optimus
from bastion.scheduler.policies.order import OrderPolicy
from bastion.scheduler.policies.preemption import PreemptionPolicy
from bastion.scheduler.policies.spread import spread
from bastion.scheduler.policies.srtf import remaining
from bastion.scheduler.policies.tiresias import level

PLACEMENTS: Mapping[str, PlacementPolicy] = {
    "best-fit": PlacementPolicy(choose=best_fit),
    "spread": PlacementPolicy(choose=spread),
    "first-fit": PlacementPolicy(choose=first_fit),
    "consolidated": PlacementPolicy(choose=best_fit, together=True),
}

ORDERS: Mapping[str, OrderPolicy] = {
    "fair": OrderPolicy(is_lasting=True, between_users=True),
    "fifo": OrderPolicy(is_lasting=True),
    "priority": OrderPolicy(is_lasting=True),
    "srtf": OrderPolicy(rank_of=remaining),
    "las": OrderPolicy(rank_of=attained),
    "tiresias": OrderPolicy(rank_of=level),
    "max-min": OrderPolicy(ranks_of=max_min),
    "optimus": OrderPolicy(ranks_of=optimus),
}

ADMISSIONS: Mapping[str, Admission] = {"all": admit_all, "load-limit": load_limit}

PREEMPTIONS: Mapping[str, PreemptionPolicy] = {
    "reclaim": PreemptionPolicy(reclaims=True, outranks=True),
    "order": PreemptionPolicy(reclaims=True, outranks=True, follows_order=True),
    "none": PreemptionPolicy(reclaims=False, outranks=False),
}
