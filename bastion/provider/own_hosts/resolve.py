"""
Which hosts of ssh pools are the same: `ssh -G` prints where OpenSSH would connect for each name.

Two names are one host if they have the same address, port and jump hosts. Names that OpenSSH does
not resolve in time are omitted. A duplicate is then reported when the host is called, because a
host that has a machine accepts no other, under any name.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from bastion.clock import Clock, SystemClock
from bastion.machine import Pool
from bastion.value import value

_RESOLVE_S = 5.0
"""
Longest time for all names, because a turn waits for it. Each `ssh -G` may look up a name (a
configuration with `CanonicalizeHostname`) or run commands (`Match exec`).
"""
_AT_ONCE = 16
_CLOCK = SystemClock()


@value
class _Way:
    """Where OpenSSH connects for a name."""

    address: str
    port: str
    jump: str = ""
    """
    The jump hosts or the proxy command: behind different ones, the same address is another host.
    """


def hosts_named_twice(
    pools: Mapping[str, Pool],
    *,
    ssh: Sequence[str] = ("ssh",),
    within_s: float = _RESOLVE_S,
    clock: Clock = _CLOCK,
) -> tuple[str, ...]:
    """Return the problem of each host of ssh pools that an earlier name also reaches."""
    named = [
        (pool.name, host, pool.options.get("ssh_config", ""))
        for pool in pools.values()
        if pool.provider == "ssh"
        for host in pool.zones
    ]
    if len(named) < 2:
        return ()
    end = clock.monotonic() + within_s

    def way(named: tuple[str, str, str]) -> _Way | None:
        return _way(ssh, *named[1:], left_s=end - clock.monotonic())

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        ways = tuple(threads.map(way, named))
    return tuple(_told(tuple(zip(named, ways, strict=True))))


def _told(resolved: Sequence[tuple[tuple[str, str, str], _Way | None]]) -> Iterator[str]:
    first: dict[_Way, tuple[str, str]] = {}
    for (pool, host, _), way in resolved:
        if way is None:
            continue
        before = first.setdefault(way, (pool, host))
        if before == (pool, host):
            continue
        other = "this pool" if before[0] == pool else f"pool {before[0]}"
        yield (
            f"config/bastion.toml: pools.{pool}.hosts: {host!r} is {before[1]!r} of {other}: both"
            f" are {way.address} port {way.port}; a host can be in only one pool, once"
        )


def _way(ssh: Sequence[str], host: str, config: str, *, left_s: float) -> _Way | None:
    if left_s <= 0.0:
        return None
    chosen = ("-F", config) if config else ()
    try:
        done = subprocess.run(
            [*ssh, *chosen, "-G", "--", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=left_s,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = (line.partition(" ") for line in done.stdout.splitlines())
    said = {key.lower(): text.strip() for key, _, text in words}
    if done.returncode != 0 or not said.get("hostname"):
        return None
    jumps = (said.get(key, "") for key in ("proxyjump", "proxycommand"))
    jump = next((text for text in jumps if text and text != "none"), "")
    return _Way(address=said["hostname"].lower(), port=said.get("port", "22"), jump=jump)
