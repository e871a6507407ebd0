"""Every page can be reached, every link resolves, and every command that is marked runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import page_runs, pages

RUNNABLE = [
    page
    for page in pages.PAGES
    if pages.steps(page.read_text()) and not pages.is_recipe(page.read_text())
]


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_links_resolve(page: Path) -> None:
    """Every link inside the repository leads to a file, and to a heading if it names one."""
    broken = [link for link in pages.links(page.read_text()) if not pages.resolves(page, link)]
    assert not broken


FOLDERS = "quota|bundler|bastion|launch|tests|docs|benchmarks|examples"
TODAY = [
    page
    for page in pages.PAGES
    if page.parent.name != "decisions"
    and page.name != "CHANGELOG.md"
    and not pages.is_recipe(page.read_text())
]


@pytest.mark.parametrize("page", TODAY, ids=pages.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """A page that says where to read changes when the file moves; decisions stay as they are."""
    named = re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", page.read_text())
    assert not [path for path in named if not (pages.REPOSITORY / path).exists()]


def test_one_job_is_followed_from_its_submission_to_its_clean_up() -> None:
    """The first page for contributors names every step, in order, each with a file."""
    text = (pages.REPOSITORY / "docs" / "contributing.md").read_text()
    table = text.split("## Where is")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "step" not in line]
    steps = re.findall(r"^\| \*\*(.+?)\*\*", table, re.MULTILINE)
    wanted = "submit bucket intake decide commit instruction agent keeper log end result view"
    assert steps == [*wanted.split(), "clean-up"]
    assert all(pages.links(row) for row in rows)


def test_the_one_test_that_is_named_exists() -> None:
    """The command that shows how to run one test selects one."""
    text = (pages.REPOSITORY / "docs" / "contributing.md").read_text()
    ((folder, word),) = re.findall(r"pytest (\S+) -k (\w+)`", text)
    files = (pages.REPOSITORY / folder).rglob("test_*.py")
    assert any(re.search(rf"^def test_\w*{word}", file.read_text(), re.M) for file in files)


def test_every_page_can_be_reached() -> None:
    """Links lead from docs/README.md to every page of docs/."""
    reached: set[Path] = set()
    ahead = [pages.REPOSITORY / "docs" / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        linked = (link.partition("#")[0] for link in pages.links(page.read_text()))
        ahead += [(page.parent / path).resolve() for path in linked if path]
    lost = [page for page in pages.PAGES if page not in reached and page.parent != pages.REPOSITORY]
    assert not lost, "add it to docs/README.md"


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_a_page_has_one_title(page: Path) -> None:
    """A page begins with its title and has no other heading of that rank."""
    text = page.read_text()
    assert text.startswith("# ")
    outside = text.split("```")[::2]
    assert sum(line.startswith("# ") for part in outside for line in part.splitlines()) == 1


@pytest.mark.parametrize("page", RUNNABLE, ids=pages.name)
def test_what_is_marked_to_run_runs(page: Path, tmp_path: Path) -> None:
    """Each marked command does what the page says, in a folder of its own."""
    (tmp_path / "examples").symlink_to(pages.REPOSITORY / "examples")
    page_runs.run(pages.steps(page.read_text()), tmp_path)


def test_the_readme_is_short() -> None:
    """The README has at most 600 words."""
    assert len((pages.REPOSITORY / "README.md").read_text().split()) <= 600


DECISIONS = [
    page for page in pages.PAGES if page.parent.name == "decisions" and page.stem[0] == "0"
]


@pytest.mark.parametrize("page", DECISIONS, ids=pages.name)
def test_a_decision_says_what_was_rejected(page: Path) -> None:
    """A decision is one page with Status, Context, Decision, Consequences and Rejected."""
    text = page.read_text()
    title, *parts = pages.headings(text)
    assert parts == ["Status", "Context", "Decision", "Consequences", "Rejected"]
    assert title.startswith(f"{page.stem[:4]} ")
    assert page.stem[5:] == pages.anchor(title[5:])
    assert len(text.split()) <= 700


def test_no_two_decisions_have_one_number() -> None:
    """Numbers are reserved before pages are written, so one may be missing; none occurs twice."""
    numbers = [int(page.stem[:4]) for page in DECISIONS]
    assert numbers[0] == 1
    assert len(set(numbers)) == len(numbers)
