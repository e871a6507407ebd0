"""Every reason and every error has a page, and the guide to refusals has a row for every reason."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from bastion import errors
from bastion.scheduler.reasons.reason import PreemptReason, Reason, WaitingReason
from tests.docs import reason_examples
from tests.docs.pages import REPOSITORY, links
from tests.docs.reason_examples import EXAMPLES

GUIDE = (REPOSITORY / "docs" / "guides" / "read-a-refusal.md").read_text()
REASONS = {kind.__name__ for kind in get_args(Reason)}
BASES = {"BastionError", "LeaseError", "ProviderError"}
"""Errors that are never raised themselves, or only without a more specific one."""
ERRORS = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.BastionError)
} - BASES


def test_every_reason_to_wait_or_to_be_stopped_is_explained() -> None:
    """The name that `why --json` prints is in the guide."""
    kinds = {kind.__name__ for kind in (*get_args(WaitingReason), *get_args(PreemptReason))}
    assert kinds <= set(re.findall(r"`(\w+)`", GUIDE))


def test_no_row_is_of_a_reason_that_is_gone() -> None:
    """Every name in the first column of the table of reasons is a current reason."""
    rows = re.findall(r"^\| ((?:`[A-Z]\w+`(?:, )?)+) \|", GUIDE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named <= {kind.__name__ for kind in get_args(WaitingReason)}


@pytest.mark.parametrize(
    ("folder", "names"), [("reasons", REASONS), ("errors", {*ERRORS, "BusyError"})]
)
def test_each_has_a_page_that_the_list_names(folder: str, names: set[str]) -> None:
    """Neither a page nor a line of the list is missing or outdated."""
    pages = {page.stem for page in (REPOSITORY / "docs" / folder).glob("*.md")} - {"README"}
    assert pages == names
    listed = links((REPOSITORY / "docs" / folder / "README.md").read_text())
    assert {f"{name}.md" for name in names} <= set(listed)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.kind)
def test_a_page_quotes_its_reason_as_it_is_printed(example: Reason) -> None:
    """`python -m tests.docs.reason_examples` writes the sentences again."""
    text = reason_examples.page(example).read_text()
    assert reason_examples.with_sentence(text, example) == text


def test_there_is_an_example_of_every_reason() -> None:
    """This ensures that every page is compared with its reason."""
    assert {example.kind for example in EXAMPLES} == REASONS
