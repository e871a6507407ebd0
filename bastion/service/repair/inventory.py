"""
What providers have, held against what root knows: `bastion doctor`.

Providers are listed before root is read. So a machine that is listed and not in root is an orphan,
or was dropped in between; one that is of a later commit than root shows a root that is too old.
Local pools are left out: listing one acts on its machines, which is for the bastion beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from bastion.errors import ProviderError
from bastion.machine import Machine, Pool
from bastion.machine_name import parse_machine
from bastion.provider.port import Listed, Provider
from bastion.value import value

UNLISTED = ("local", "fake")
"""Providers whose pools are not looked at."""


@value
class Odd:
    """One machine about which a provider and root disagree, or a pool that cannot be listed."""

    pool: str
    machine: str = ""
    """Empty for the pool itself."""
    kind: Literal["orphan", "stranger", "absent", "unreachable"]
    """
    `orphan`: it exists and no record needs it. `stranger`: a later commit than root's named it, or
    none did. `absent`: root has it ready and its provider does not. `unreachable`: the pool.
    """
    text: str = ""
    zone: str = ""
    price_per_hour: float = 0.0
    """As its pool says; 0 where that is not known."""


@value
class Inspection:
    """What was listed, and what is odd about it."""

    bucket: str
    """The bucket's own name."""
    listed: Mapping[str, int]
    """Pool -> machines that its provider has."""
    unlisted: tuple[str, ...]
    """Pools that were not looked at."""
    odd: tuple[Odd, ...]


def listed_or_why(provider: Provider) -> tuple[Listed, ...] | str:
    """List `provider`; in words what keeps it from that, if anything does."""
    try:
        return provider.list()
    except ProviderError as error:
        return error.in_a_line


def odd_machines(
    pool: Pool, listed: tuple[Listed, ...] | str, machines: Mapping[str, Machine], *, seq: int
) -> Iterator[Odd]:
    """What is odd about one pool, given what its provider said before root was read."""
    if isinstance(listed, str):
        yield Odd(pool=pool.name, kind="unreachable", text=listed)
        return
    standing = {each.name: each for each in listed if each.state not in ("deleting", "gone")}
    for name, each in sorted(standing.items()):
        if name in machines:
            continue
        named = parse_machine(name, pool.name)
        is_orphan = named is not None and named.seq <= seq
        since = f", made at {each.created_at}" if each.created_at else ""
        yield Odd(
            pool=pool.name,
            machine=name,
            kind="orphan" if is_orphan else "stranger",
            text=f"is {each.state}{since}",
            zone=each.zone,
            price_per_hour=pool.price_per_hour,
        )
    for machine in machines.values():
        if machine.pool == pool.name and machine.made_at and machine.name not in standing:
            text = f"is {machine.phase.value} in root, and its provider does not list it"
            yield Odd(
                pool=pool.name, machine=machine.name, kind="absent", text=text, zone=machine.zone
            )


def delete_orphans(
    odd: tuple[Odd, ...], opened: Callable[[str], Provider]
) -> Iterator[tuple[Odd, str]]:
    """Delete every orphan of `odd`; each with why it could not be, or an empty text."""
    for each in odd:
        if each.kind == "orphan":
            try:
                opened(each.pool).delete(each.machine)
                yield each, ""
            except ProviderError as error:
                yield each, error.in_a_line
