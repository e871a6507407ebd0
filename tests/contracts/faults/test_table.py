"""The page about faults of machines says what the tests hold, and no more."""

from __future__ import annotations

import inspect
import re

from tests.contracts.faults import test_machines
from tests.contracts.faults.grounds import GROUNDS
from tests.contracts.faults.table import FAULTS, NEVER, PROVIDERS, page_rows
from tests.end_to_end.programs import REPOSITORY

PAGE = REPOSITORY / "docs" / "explanation" / "faults-of-machines.md"


def test_the_page_has_the_table() -> None:
    """It names every fault, every provider, and why a provider cannot meet a fault."""
    text = PAGE.read_text()
    assert f"| fault | {' | '.join(PROVIDERS)} |" in text
    found = [line for line in text.splitlines() if re.match(r"\| (?!fault|---)", line)]
    assert [line for line in found if line.endswith(("| yes |", "| no |"))] == page_rows()
    for (fault, provider), why in NEVER.items():
        assert f"| {fault} | {provider} | {why} |" in found


def test_every_fault_has_a_test() -> None:
    """Each cell that says yes is a case of a test that names its fault."""
    source = inspect.getsource(test_machines)
    for fault in FAULTS:
        assert f'@over("{fault}"' in source
    assert tuple(GROUNDS) == PROVIDERS
