"""Under chaos no invariant breaks: `chaos.py` strikes, `verdict.py` compares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.end_to_end.chaos import ROOTS, poor_ground, run
from tests.end_to_end.verdict import told

pytestmark = [pytest.mark.end_to_end, pytest.mark.prove]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount the small disk")
def test_chaos_on_failing_hosts_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """The same while the bucket goes away, a disk is full, descriptors run out, clocks step."""
    with ROOTS["file"](tmp_path, 3) as place, poor_ground(tmp_path) as around:
        report = run(tmp_path, place, minutes=3.0, jobs=300, seed=3, around=around)
    assert not report.wrong, told(report.numbers, report.wrong)


@pytest.mark.parametrize("root", ROOTS)
def test_chaos_loses_and_repeats_nothing(root: str, tmp_path: Path) -> None:
    """500 jobs under kill -9 and SIGSTOP: one outcome each, every byte logged, nothing left."""
    with ROOTS[root](tmp_path, 1) as place:
        report = run(tmp_path, place, minutes=3.0, jobs=500, seed=1)
    assert not report.wrong, told(report.numbers, report.wrong)
