"""Combinations of policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from bastion.simulator.setup import Setup


def combined(
    setup: Setup,
    orders: Sequence[str] = (),
    policies: Sequence[str] = (),
    admissions: Sequence[str] = (),
    placements: Sequence[str] = (),
    preemptions: Sequence[str] = (),
) -> list[Setup]:
    """Return `setup` with every order and external policy, combined with all of the rest."""
    ways = [replace(setup, order=order) for order in orders]
    ways += [replace(setup, policy=policy) for policy in policies]
    rest = product(
        ways or [setup],
        admissions or [setup.admission],
        placements or [setup.placement],
        preemptions or [setup.preemption],
    )
    return [
        replace(way, admission=admission, placement=placement, preemption=preemption)
        for way, admission, placement, preemption in rest
    ]
