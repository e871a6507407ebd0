"""
The machines of providers compared with root: `bastion doctor`.

Providers are listed before root is read. So a machine that is listed but not in root is an orphan,
or was dropped in between; a machine from a later commit than root's shows that root is too old.
Local pools are not listed: that acts on their machines, which is for the bastion on their host.
Their agents ring twice a minute, so root shows which of them are silent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal

from bastion.errors import ProviderError
from bastion.history.prices import price_in_force
from bastion.machine import Machine, MachinePhase, Pool
from bastion.machine_name import parse_machine
from bastion.provider.port import Listed, Provider, TellsRights, TellsUnreached
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value

UNLISTED = ("local", "fake")
"""Providers whose machines are not listed."""
LOCAL_SILENT_S = 600.0
"""Twenty heartbeats of an agent of a local pool."""


@value
class Odd:
    """One machine on which a provider and root disagree, or a pool that cannot be listed."""

    pool: str
    machine: str = ""
    """Empty for the pool itself."""
    kind: Literal["orphan", "stranger", "absent", "ending", "silent", "unreachable", "rights"]
    """
    `orphan`: it exists and no record needs it. `stranger`: a later commit than root's named it, or
    none did. `absent`: root has it as ready but its provider does not have it. `ending`: its permit
    has expired, but its provider has not confirmed that it is gone. `silent`: a local machine whose
    agent no longer rings. `unreachable`: the pool, or its host that `zone` names.
    `rights`: a pool in which the identity in use cannot create or delete machines.
    """
    text: str = ""
    zone: str = ""
    price_per_hour: float = 0.0
    """Price in `config/bastion.toml`, else the list price; 0 if neither is known."""
    is_list_price: bool = False


@value
class Inspection:
    """What was listed, and what is odd about it."""

    bucket: str
    """The bucket's own name."""
    listed: Mapping[str, int]
    """Pool -> machines that its provider has."""
    unlisted: tuple[str, ...]
    """Pools that were not checked."""
    unchecked: Mapping[str, str]
    """Pools whose rights could not be determined -> why."""
    odd: tuple[Odd, ...]


def listed_or_why(provider: Provider) -> tuple[Listed, ...] | str:
    """List `provider`; return in words what prevents that, if anything does."""
    try:
        return provider.list()
    except ProviderError as error:
        return error.in_a_line


def standing_count(listed: Iterable[Listed]) -> int:
    """Return how many machines there are; some providers list ended ones for a time."""
    return sum(each.state != "gone" for each in listed)


def lacking_or_why(provider: Provider) -> tuple[str, ...] | str:
    """Return what the identity in use cannot do, or in words why `provider` cannot say."""
    try:
        return provider.lacking() if isinstance(provider, TellsRights) else ()
    except ProviderError as error:
        return error.in_a_line


def unreached_hosts(pool: Pool, provider: Provider) -> Iterator[Odd]:
    """Yield the hosts of a pool that did not answer when it was listed."""
    if isinstance(provider, TellsUnreached):
        for host, why in sorted(provider.unreached().items()):
            yield Odd(pool=pool.name, kind="unreachable", text=why, zone=host)


def silent_machines(pool: Pool, machines: Mapping[str, Machine], now: float) -> Iterator[Odd]:
    """Yield the machines of a local pool whose agents no longer ring."""
    for machine in machines.values():
        silent_s = now - max(machine.heard_at, machine.created_at)
        if machine.pool == pool.name and machine.heartbeat_s and silent_s > LOCAL_SILENT_S:
            text = f"its agent was last heard from {text_of_seconds(float(int(silent_s)))} ago"
            yield Odd(pool=pool.name, machine=machine.name, kind="silent", text=text)


def odd_machines(
    pool: Pool,
    listed: tuple[Listed, ...] | str,
    machines: Mapping[str, Machine],
    *,
    seq: int,
    now: float,
    unreached: Collection[str] = (),
) -> Iterator[Odd]:
    """
    Yield what is odd about one pool, given what its provider said before root was read.

    The list prices are those at `now`, in seconds since 1970. Nothing is known about machines in
    the zones `unreached`.
    """
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
            price_per_hour=price_in_force(pool.price_per_hour, pool.instance_type, pool.terms, now),
            is_list_price=not pool.price_per_hour,
        )
    yield from _ending_machines(pool, listed, machines)
    states = {each.name: each.state for each in listed}
    for machine in machines.values():
        is_listed = machine.name in standing or machine.zone in unreached
        is_ours = machine.pool == pool.name and machine.phase is not MachinePhase.DELETING
        if is_ours and machine.made_at and not is_listed:
            state = states.get(machine.name)
            shown = f"shows it as {state}" if state else "does not list it"
            text = f"is {machine.phase.value} in root, and its provider {shown}"
            yield Odd(
                pool=pool.name, machine=machine.name, kind="absent", text=text, zone=machine.zone
            )


def _ending_machines(
    pool: Pool, listed: Iterable[Listed], machines: Mapping[str, Machine]
) -> Iterator[Odd]:
    """Yield the machines of a cluster whose permits have expired and that have not ended."""
    if not pool.permit_s or pool.machines_per_zone:
        return
    for each in listed:
        if each.state == "deleting" and each.name not in machines:
            said = f" ({each.text})" if each.text else ""
            text = (
                f"is being deleted{said}, and its node has not confirmed its end; if the node is"
                f" off permanently, remove it from the cluster: bastion help run-on-{pool.provider}"
            )
            yield Odd(pool=pool.name, machine=each.name, kind="ending", text=text, zone=each.zone)


def delete_orphans(
    odd: tuple[Odd, ...], opened: Callable[[str], Provider]
) -> Iterator[tuple[Odd, str]]:
    """Delete every orphan in `odd`; yield each with why it was not deleted, or an empty text."""
    for each in odd:
        if each.kind == "orphan":
            try:
                opened(each.pool).delete(each.machine)
                yield each, ""
            except ProviderError as error:
                yield each, error.in_a_line
