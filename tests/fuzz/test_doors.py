"""For any input a door raises only its own errors, in bounded memory."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.doors import DOORS, enter
from tests.rigs.length import at_length

REPOSITORY = Path(__file__).parents[2]
HAS_ATHERIS = importlib.util.find_spec("atheris") is not None
MOST_PER_BYTE = 1_000
"""Bytes of memory for each byte of input: reporting one wrong value costs about a kilobyte."""
LEAST_BYTES = 32 << 20


@pytest.mark.parametrize("name", DOORS)
def test_what_once_stopped_a_bastion_does_not(name: str) -> None:
    """Every earlier attack is accepted, or refused with the door's own errors."""
    for seed in DOORS[name].seeds:
        tracemalloc.start()
        try:
            enter(name, seed)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < LEAST_BYTES + MOST_PER_BYTE * len(seed), f"{seed[:80]!r}"


@pytest.mark.parametrize("name", DOORS)
@settings(max_examples=50, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_may_come(name: str, data: bytes) -> None:
    """Random bytes raise nothing but the door's own errors."""
    enter(name, data)


@pytest.mark.prove
@pytest.mark.parametrize("name", DOORS)
def test_a_fuzzer_finds_nothing(name: str) -> None:
    """Half a minute of coverage-guided fuzzing, from all seeds, crashes no door."""
    if not HAS_ATHERIS:
        pytest.skip("atheris is not installed: it has no build for this Python")
    most = at_length(30)
    flags = [f"-max_total_time={most}", "-print_final_stats=1"]
    words = [sys.executable, "-m", "tests.fuzz", name, *flags]
    ran = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=most + 540)
    assert ran.returncode == 0, ran.stderr[-3000:]
