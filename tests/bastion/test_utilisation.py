"""The summary of samples, and of the hosts of an attempt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bastion.utilisation import Utilisation, merged, summed


def test_a_summary_by_hand() -> None:
    """For ten samples: mean, median, maximum, and the fraction below five per cent."""
    found = summed({0: 3, 4: 1, 5: 1, 50: 4, 100: 1}, cores=1.5, memory_bytes=7)
    assert found == Utilisation(
        samples=10, mean=0.309, p50=0.05, max=1.0, idle=0.4, cores=1.5, memory_bytes=7
    )


def test_nothing_sampled_is_none() -> None:
    """Without samples there is no summary; hosts without devices have only cores and memory."""
    assert merged([]) is None
    found = merged([Utilisation(cores=1.0, memory_bytes=2), Utilisation(cores=2.0, memory_bytes=3)])
    assert found == Utilisation(cores=3.0, memory_bytes=5)


@given(st.lists(st.dictionaries(st.integers(0, 100), st.integers(1, 50), min_size=1), min_size=1))
def test_hosts_are_merged_by_their_samples(hosts: list[dict[int, int]]) -> None:
    """Mean, idle fraction and maximum of hosts are those of all their samples together."""
    every: dict[int, int] = {}
    for host in hosts:
        for percent, count in host.items():
            every[percent] = every.get(percent, 0) + count
    whole, parts = summed(every), merged(map(summed, hosts))
    assert parts is not None
    assert (parts.samples, parts.max) == (whole.samples, whole.max)
    assert abs(parts.mean - whole.mean) < 0.002
    assert abs(parts.idle - whole.idle) < 0.002


def test_what_is_out_of_bounds_is_clamped() -> None:
    """An agent's numbers are shown, never used for decisions: they are limited."""
    found = Utilisation(samples=1, mean=7.0, p50=float("nan"), idle=-1.0, cores=float("inf"))
    assert (found.mean, found.p50, found.idle, found.cores) == (1.0, 0.0, 0.0, 100_000.0)
