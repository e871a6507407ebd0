"""Every page is found, every link resolves, and what a page says can be run does run."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

import pytest

from tests.docs import pages

RUNNABLE = [page for page in pages.PAGES if pages.steps(page.read_text())]


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_links_resolve(page: Path) -> None:
    """Every link inside the repository leads to a file, and to a heading where it names one."""
    broken = [link for link in pages.links(page.read_text()) if not pages.resolves(page, link)]
    assert not broken


def test_every_page_can_be_reached() -> None:
    """Whoever starts at docs/README.md finds every page of docs/."""
    reached: set[Path] = set()
    ahead = [pages.HOUSE / "docs" / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        linked = (link.partition("#")[0] for link in pages.links(page.read_text()))
        ahead += [(page.parent / path).resolve() for path in linked if path]
    lost = [page for page in pages.PAGES if page not in reached and page.parent != pages.HOUSE]
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
    (tmp_path / "examples").symlink_to(pages.HOUSE / "examples")
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "NO_COLOR": "1",
    }
    try:
        for step in pages.steps(page.read_text()):
            ran = subprocess.run(
                ["bash", "-c", step.command],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
            )
            same = OutputChecker().check_output(step.printed, ran.stdout, ELLIPSIS)
            assert same, f"$ {step.command}\nprinted:\n{ran.stdout}\nthe page says:\n{step.printed}"
    finally:
        left = [pid for pid in started_in(tmp_path) if not has_ended(pid, within_s=10)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not left, "the page leaves processes running"


def started_in(folder: Path) -> list[int]:
    """The living processes whose working directory or command line lies in `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_bytes().decode(errors="replace")
            here = os.fspath((process / "cwd").readlink())
        except OSError:
            continue
        if f"{folder}/" in said or here == str(folder) or here.startswith(f"{folder}/"):
            found.append(int(process.name))
    return found


def has_ended(pid: int, *, within_s: float) -> bool:
    """Whether the process ends in time: one that was told to stop may need a moment."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_s)[0])
    finally:
        os.close(handle)


def test_the_readme_is_short() -> None:
    """The README has at most 600 words."""
    assert len((pages.HOUSE / "README.md").read_text().split()) <= 600


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
    """Numbers are given out before pages are written, so one may be missing, and none is twice."""
    numbers = [int(page.stem[:4]) for page in DECISIONS]
    assert numbers[0] == 1
    assert len(set(numbers)) == len(numbers)
