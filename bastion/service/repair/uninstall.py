"""
Whether everything of ours can be removed from your own host, and which pool's settings reach it.

This module is pure: the host itself is queried elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bastion.errors import SpecError
from bastion.machine import Machine, MachinePhase, Pool
from bastion.service.config.inventory import HOST, plain_host
from quota.amounts import NOTHING

_WAYS = ("ssh_config", "folder", "python")
"""Options of a pool that say how its hosts are reached and where files are on them."""


def way_to(
    host: str, pools: Mapping[str, Pool], machines: Iterable[Machine], *, by: str = ""
) -> Pool:
    """
    Return the pool by which the host is reached, with `host` as its only host.

    Args:
        host: Its name for OpenSSH.
        pools: Those of the configuration.
        machines: Those of the records.
        by: The pool whose settings lead to the host; needed if pools differ in them.

    Raises:
        SpecError: The host is in use, or how to reach it is unknown.
    """
    if not HOST.fullmatch(host):
        raise SpecError(f"{host!r} is not a name that OpenSSH takes, such as gpu1 or root@gpu1")
    own = {name: pool for name, pool in pools.items() if pool.provider == "ssh"}
    if by and by not in own:
        raise SpecError(
            f"pool {by!r} is not a pool of provider ssh; there are"
            f" {', '.join(sorted(own)) or 'none'}"
        )
    for pool in own.values():
        if any(plain_host(zone) == plain_host(host) for zone in pool.zones):
            raise SpecError(
                f"{host} is a host of pool {pool.name}, and would be installed again",
                hint="first take it out of hosts in config/bastion.toml, or out of its inventory",
            )
    for machine in machines:
        if machine.zone and plain_host(machine.zone) == plain_host(host):
            raise SpecError(
                f"{host} still holds machine {machine.name}, which is {machine.phase.value}",
                hint=_until_left(machine),
            )
    chosen = [own[by]] if by else list(own.values())
    ways = {tuple(pool.options.get(name, "") for name in _WAYS) for pool in chosen}
    if len(ways) > 1:
        raise SpecError(
            f"pools {', '.join(sorted(own))} reach their hosts in different ways",
            hint=f"choose the one that reaches {host}, such as --pool={min(own)}",
        )
    options = dict(zip(_WAYS, ways.pop() if ways else ("", "", ""), strict=True))
    return Pool(
        name=by or "none",
        provider="ssh",
        resources=NOTHING,
        max_machines=1,
        zones=(host,),
        machines_per_zone=1,
        options={name: text for name, text in options.items() if text},
    )


def _until_left(machine: Machine) -> str:
    """Return what makes `machine` leave the records."""
    if machine.phase == MachinePhase.DELETING:
        return (
            "it leaves the records once its host answers, or after its pool's permit if the host"
            " is off"
        )
    return (
        f"bastion drain {machine.name}; it leaves once it has been idle for the idle_timeout of"
        " its pool"
    )
