"""The parts of a machine's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bastion.machine_name import MachineName, parse_machine

NAMES = st.builds(
    MachineName,
    pool=st.from_regex(r"[a-z][a-z0-9]{0,3}(-[a-z0-9]{1,3}){0,2}", fullmatch=True),
    seq=st.integers(0, 10**6),
    index=st.integers(0, 99),
    host=st.none() | st.integers(0, 63),
)


@given(NAMES)
def test_a_name_is_parsed_to_its_parts(name: MachineName) -> None:
    """A printed name is parsed to the same value for any pool name."""
    assert parse_machine(str(name), name.pool) == name


@given(NAMES, NAMES)
def test_no_two_allocations_have_one_name(one: MachineName, other: MachineName) -> None:
    """This holds even if one pool's name is a prefix of another's."""
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize(
    "name", ["gpu", "gpu-1", "gpu-1-", "gpu-1-x", "gpu-1-2-h", "gpus-1-2", "gpu-1-2-3", "gpu-²-1"]
)
def test_other_names_are_not_parsed(name: str) -> None:
    """A name that no commit allocates is not accepted."""
    assert parse_machine(name, "gpu") is None


def test_a_name_reads_as_the_design_has_it() -> None:
    """It has pool, commit, index, and the host of a slice."""
    name = MachineName(pool="gpu", seq=12, index=3)
    assert (str(name), str(MachineName(pool="tpu", seq=1, index=0, host=2))) == (
        "gpu-12-3",
        "tpu-1-0-h2",
    )
