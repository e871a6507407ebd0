"""The guide to refusals has a row for every reason that a user can meet."""

from __future__ import annotations

import re
from typing import get_args

from bastion.scheduler.reasons.reason import PreemptReason, WaitingReason
from tests.docs.pages import REPOSITORY

PAGE = (REPOSITORY / "docs" / "guides" / "read-a-refusal.md").read_text()


def test_every_reason_to_wait_or_to_be_stopped_is_explained() -> None:
    """The name that `why --json` prints is on the page."""
    kinds = {kind.__name__ for kind in (*get_args(WaitingReason), *get_args(PreemptReason))}
    assert kinds <= set(re.findall(r"`(\w+)`", PAGE))


def test_no_row_is_of_a_reason_that_is_gone() -> None:
    """Every name in the first column of the table of reasons is a reason."""
    rows = re.findall(r"^\| ((?:`[A-Z]\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named <= {kind.__name__ for kind in get_args(WaitingReason)}
