"""Tests share helpers in files without tests."""

from __future__ import annotations

import re

from tests.house import rules

IMPORT = re.compile(
    r"^\s*from (tests[\w.]*\.(?:test_\w+|conftest)) import|^\s*import (tests\S*)", re.M
)


def test_no_test_file_is_imported_from() -> None:
    """Code of two test files is in a separate file, so one can change without the other."""
    found = [
        f"{path.relative_to(rules.REPOSITORY)} imports {match[1] or match[2]}"
        for path in sorted((rules.REPOSITORY / "tests").rglob("*.py"))
        for match in IMPORT.finditer(path.read_text())
    ]
    assert not found
