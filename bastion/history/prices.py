"""
List prices: the price of an instance type per hour, by terms and date, unless an admin sets it.

Only prices from a published price list are here, each with the day from which it applies.
Everything else has no price: an unknown cost is better than a wrong one. So there is no spot price
for EC2, which changes within the day and between zones, and no price for GCE machines, whose parts
are billed separately. Prices are in dollars, on demand: EC2 in us-east-1, TPUs in us-central1 (v4
in us-central2).

Source: aws.amazon.com/ec2/pricing/on-demand and cloud.google.com/tpu/pricing. The prices of p3,
p4de, p5, v5p and v6e were compared with SkyPilot's catalog of prices (v8,
skypilot-org/skypilot-catalog), which reads the vendors' interfaces; that of trn1.32xlarge with one
published comparison (usage.ai, June 2026). Those of g5, g6, p4d, p5en, p6-b200, trn1, trn1n and
inf2 were compared with copies of Amazon's price list in public repositories: two or more of 2026
for each type, which agree to their precision. p3dn was compared with two of them. v4 and v5e were
not compared. Amazon sells p5e only as capacity blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from bastion.bounds import LATEST_S
from bastion.catalog import lookup
from bastion.errors import SpecError
from bastion.machine import Terms

_MIDDLE_OF_2025 = "2025-07-01"
"""Amazon lowered its prices for accelerated instances in June 2025; these apply since then."""

_EC2: Mapping[str, tuple[tuple[str, float], ...]] = {
    "p3.2xlarge": ((_MIDDLE_OF_2025, 3.06),),
    "p3.8xlarge": ((_MIDDLE_OF_2025, 12.24),),
    "p3.16xlarge": ((_MIDDLE_OF_2025, 24.48),),
    "p3dn.24xlarge": ((_MIDDLE_OF_2025, 31.212),),
    "p4d.24xlarge": ((_MIDDLE_OF_2025, 21.957642),),
    "p4de.24xlarge": ((_MIDDLE_OF_2025, 27.44705),),
    "p5.4xlarge": ((_MIDDLE_OF_2025, 6.88),),
    "p5.48xlarge": ((_MIDDLE_OF_2025, 55.04),),
    "p5en.48xlarge": ((_MIDDLE_OF_2025, 63.296),),
    "p6-b200.48xlarge": ((_MIDDLE_OF_2025, 113.9328),),
    "g5.xlarge": ((_MIDDLE_OF_2025, 1.006),),
    "g5.2xlarge": ((_MIDDLE_OF_2025, 1.212),),
    "g5.4xlarge": ((_MIDDLE_OF_2025, 1.624),),
    "g5.8xlarge": ((_MIDDLE_OF_2025, 2.448),),
    "g5.12xlarge": ((_MIDDLE_OF_2025, 5.672),),
    "g5.16xlarge": ((_MIDDLE_OF_2025, 4.096),),
    "g5.24xlarge": ((_MIDDLE_OF_2025, 8.144),),
    "g5.48xlarge": ((_MIDDLE_OF_2025, 16.288),),
    "g6.xlarge": ((_MIDDLE_OF_2025, 0.8048),),
    "g6.2xlarge": ((_MIDDLE_OF_2025, 0.9776),),
    "g6.4xlarge": ((_MIDDLE_OF_2025, 1.3232),),
    "g6.8xlarge": ((_MIDDLE_OF_2025, 2.0144),),
    "g6.12xlarge": ((_MIDDLE_OF_2025, 4.6016),),
    "g6.16xlarge": ((_MIDDLE_OF_2025, 3.3968),),
    "g6.24xlarge": ((_MIDDLE_OF_2025, 6.6752),),
    "g6.48xlarge": ((_MIDDLE_OF_2025, 13.3504),),
    "trn1.2xlarge": ((_MIDDLE_OF_2025, 1.34375),),
    "trn1.32xlarge": ((_MIDDLE_OF_2025, 21.5),),
    "trn1n.32xlarge": ((_MIDDLE_OF_2025, 24.78),),
    "inf2.xlarge": ((_MIDDLE_OF_2025, 0.7582),),
    "inf2.8xlarge": ((_MIDDLE_OF_2025, 1.96786),),
    "inf2.24xlarge": ((_MIDDLE_OF_2025, 6.49063),),
    "inf2.48xlarge": ((_MIDDLE_OF_2025, 12.98127),),
}
"""Instance type -> (first day, dollars per hour), oldest first."""

_TPU_CHIPS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "v4": ((_MIDDLE_OF_2025, 3.22),),
    "v5e": ((_MIDDLE_OF_2025, 1.20),),
    "v5p": ((_MIDDLE_OF_2025, 4.20),),
    "v6e": ((_MIDDLE_OF_2025, 2.70),),
}
"""TPU version -> (first day, dollars per chip and hour), oldest first."""


def list_price(instance_type: str, terms: str, at: float) -> float | None:
    """
    Return the list price of one machine of `instance_type` per hour; None if it is unknown.

    Args:
        instance_type: By any of its names. The price of a slice is divided among its hosts.
        terms: `on_demand` only: other terms have no list price here.
        at: Seconds since 1970.
    """
    if terms != "on_demand":
        return None
    try:
        found = lookup(instance_type)
    except SpecError:
        return None
    if not 0.0 <= at <= LATEST_S:
        return None
    day = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
    if found.provider != "gcp_tpu":
        return _in_force(_EC2.get(found.name, ()), day)
    (version,) = found.resources.types()
    price = _in_force(_TPU_CHIPS.get(version, ()), day)
    return None if price is None else price * found.chips / found.hosts


def price_in_force(own: float, instance_type: str, terms: str, at: float) -> float:
    """
    Return the price of one machine per hour, 0 if it is unknown.

    Args:
        own: The value in `config/bastion.toml`; 0: none, and the list price applies.
        instance_type: See `list_price`.
        terms: See `list_price`.
        at: Seconds since 1970.
    """
    return own or (list_price(instance_type, terms, at) or 0.0)


def _in_force(prices: tuple[tuple[str, float], ...], day: str) -> float | None:
    return next((price for since, price in reversed(prices) if since <= day), None)


def own_price(
    prices: Mapping[str, Mapping[Terms, float]], instance_type: str, terms: Terms
) -> float:
    """
    Return the price of one machine per hour from `prices` of `config/bastion.toml`; 0 if none.

    A price there is for the whole instance type, so for all hosts of a slice.
    """
    price = prices.get(instance_type, {}).get(terms, 0.0)
    if not price:
        return 0.0
    try:
        return price / lookup(instance_type).hosts
    except SpecError:
        return price
