"""
How much of a host's resources was used while it ran: a summary of samples, bounded in size.

It is pure, and part of a host's end. Fractions are relative to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from bastion.bounds import MOST_NUMBER, check_whole, within
from bastion.value import value

IDLE = 0.05
"""A device that is used less than this counts as idle: a driver's own work is less."""
MAX_CORES = 100_000.0


@value
class Utilisation:
    """The use of a host, or of all hosts of an attempt, from its start to its end."""

    samples: int = 0
    """Of devices: each of these values counts every device. 0: the devices were not seen."""
    mean: float = 0.0
    p50: float = 0.0
    max: float = 0.0
    idle: float = 0.0
    """Fraction of the samples in which the device was used less than `IDLE`."""
    cores: float = 0.0
    """CPU cores in use, on average."""
    memory_bytes: int = 0
    """The most memory that its processes had at the same time."""

    def __post_init__(self) -> None:
        check_whole("utilisation.samples", self.samples)
        check_whole("utilisation.memory_bytes", self.memory_bytes, most=MOST_NUMBER)
        for name in ("mean", "p50", "max", "idle"):
            object.__setattr__(self, name, within(getattr(self, name), most=1.0))
        object.__setattr__(self, "cores", within(self.cores, most=MAX_CORES))


def merged(each: Iterable[Utilisation]) -> Utilisation | None:
    """
    Return the utilisation of hosts that ran together; None if there is none.

    Devices count by their samples; `p50` is the median of the hosts' medians, because the hosts of
    a gang do the same work. Cores and memory are added up.
    """
    hosts = tuple(each)
    if not hosts:
        return None
    n = sum(host.samples for host in hosts)
    seen = [host for host in hosts if host.samples]
    return Utilisation(
        samples=min(n, MOST_NUMBER),
        mean=_rounded(sum(host.mean * host.samples for host in seen) / n) if n else 0.0,
        p50=_at_half(sorted((host.p50, host.samples) for host in seen), n),
        max=max((host.max for host in seen), default=0.0),
        idle=_rounded(sum(host.idle * host.samples for host in seen) / n) if n else 0.0,
        cores=_rounded(sum(host.cores for host in hosts)),
        memory_bytes=min(sum(host.memory_bytes for host in hosts), MOST_NUMBER),
    )


def summed(
    percents: Mapping[int, int], *, cores: float = 0.0, memory_bytes: int = 0
) -> Utilisation:
    """Return the summary of samples, counted by whole percent."""
    n = sum(percents.values())
    if not n:
        return Utilisation(cores=_rounded(cores), memory_bytes=memory_bytes)
    below = sum(count for percent, count in percents.items() if percent < 100 * IDLE)
    return Utilisation(
        samples=n,
        mean=_rounded(sum(percent * count for percent, count in percents.items()) / n / 100),
        p50=_at_half(sorted(percents.items()), n) / 100,
        max=max(percents) / 100,
        idle=_rounded(below / n),
        cores=_rounded(cores),
        memory_bytes=memory_bytes,
    )


def _at_half(ranked: Iterable[tuple[float, int]], n: int) -> float:
    """Return the smallest value that at least half of all samples do not exceed."""
    upto = 0
    last = 0.0
    for found, count in ranked:
        upto += count
        last = found
        if 2 * upto >= n:
            break
    return last


def _rounded(number: float) -> float:
    """Return `number` rounded to three decimal places: people read it."""
    return round(number, 3) if isfinite(number) else 0.0
