"""A listing of a pool, as a turn learns it: its machines, and the hosts that were not reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bastion.errors import ProviderRefusedError
from bastion.pool import Seen
from bastion.provider.port import Listed, Provider, TellsAccount, TellsUnreached
from bastion.service.act.shortages import MAX_SAID_CHARACTERS
from bastion.value import value

_MOST_HOSTS = 5
"""Maximum unreached hosts of one pool that are a problem each; the others are only counted."""
_WAITS = "the provider keeps the request until it has machines"


@value
class Listing:
    """The machines that a provider has listed, and the hosts that it did not reach -> why."""

    seen: tuple[Seen, ...]
    unreached: Mapping[str, str]


def listing_of(provider: Provider, pool: str, accounts: frozenset[str]) -> Listing:
    """
    List `pool`, whose machines are in `accounts`.

    Raises:
        ProviderError: What its provider raises; also if the listing is of another account, where
            all of the machines would seem to be gone.
    """
    found = [listed for listed in provider.list() if listed.pool == pool]
    if accounts and isinstance(provider, TellsAccount):
        here = next(filter(None, (listed.account for listed in found)), "") or provider.account()
        if here and here not in accounts:
            raise _elsewhere(", ".join(sorted(accounts)), here)
    seen = tuple(map(_seen, found))
    unreached = provider.unreached() if isinstance(provider, TellsUnreached) else {}
    return Listing(seen=seen, unreached=unreached)


def _elsewhere(accounts: str, here: str) -> ProviderRefusedError:
    return ProviderRefusedError(
        f"its machines are in {accounts}, and the bastion lists and creates machines in {here}:"
        " so it ignores that list and creates nothing",
        hint="give the bastion the credentials and options.project it had, or rename the pool",
    )


def unreached_hosts(pool: str, hosts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what does not answer, and why: some hosts by name, and how many more there are."""
    for host in sorted(hosts)[:_MOST_HOSTS]:
        yield f"pool {pool}: host {host}", hosts[host].removeprefix(f"host {host}: ")
    if (more := len(hosts) - _MOST_HOSTS) > 0:
        those = "1 more does" if more == 1 else f"{more} more do"
        yield f"pool {pool}: hosts", f"{those} not answer; bastion doctor names each"


def _seen(listed: Listed) -> Seen:
    return Seen(
        name=listed.name,
        pool=listed.pool,
        runs=listed.state in ("waiting", "creating", "running", "deleting"),
        gone=listed.state == "gone",
        waits=(listed.text or _WAITS)[:MAX_SAID_CHARACTERS] if listed.state == "waiting" else "",
        prepares=listed.prepares[:MAX_SAID_CHARACTERS],
        stuck=listed.stuck[:MAX_SAID_CHARACTERS],
        odd=listed.odd,
        account=listed.account,
        leaves_rest=listed.leaves_rest,
        ended=listed.text[:MAX_SAID_CHARACTERS] if listed.state == "gone" else "",
    )
