"""The site is built from the same pages, without one warning."""

from __future__ import annotations

import inspect
import io
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docutils.core import publish_doctree

import bastion
from bastion import __all__ as public
from tests.docs.pages import PAGES, REPOSITORY, name

PYTHON_PAGE = REPOSITORY / "docs" / "reference" / "python.md"
SITE = runpy.run_path(str(REPOSITORY / "docs" / "conf.py"))


@pytest.mark.prove
def test_the_site_has_every_page_and_every_public_name(tmp_path: Path) -> None:
    """No link, anchor or docstring is broken; the search knows what the pages say."""
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    built = subprocess.run(
        [*command, "-c", "docs", "-d", tmp_path / "trees", ".", site],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert (built.returncode, built.stderr) == (0, "")
    missing = [name(page) for page in PAGES if not _built(site, page).exists()]
    assert missing == []
    api = (site / "docs" / "reference" / "python.html").read_text()
    assert [each for each in public if f'id="bastion.{each}"' not in api] == []
    assert "Fragmented" in (site / "searchindex.js").read_text()


def test_the_page_of_the_python_api_names_every_public_name_once() -> None:
    """The site has the docstrings of the contents of `import bastion`, and no others."""
    directives = re.findall(r"^\.\. auto\w+:: bastion\.(\w+)$", PYTHON_PAGE.read_text(), re.M)
    assert sorted(directives) == sorted(public)


def test_every_public_docstring_is_laid_out_as_it_is_written() -> None:
    """Napoleon and docutils read each without a warning: no list or block is broken."""
    broken = {}
    for what, docstring in (found for each in public for found in _docstrings(each)):
        if warnings := _warnings(docstring):
            broken[what] = warnings
    assert broken == {}


def test_a_broken_docstring_is_seen() -> None:
    """A block with a wrong end is a warning, as when the site is built."""
    broken = _warnings(_laid_out("One ``that never ends\n"))
    assert "start-string without end-string" in broken


def test_every_listed_page_is_in_the_navigation() -> None:
    """The trees of the site are the lists of its index, each page once, and all of them exist."""
    text = (REPOSITORY / "docs" / "README.md").read_text()
    trees = SITE["_trees"](text, under="docs/")
    pages = [line for line in trees.splitlines() if re.fullmatch(r"[\w./-]+", line)]
    assert len(pages) == len(set(pages)) > 20
    assert [page for page in pages if not (REPOSITORY / f"{page}.md").is_file()] == []


def _docstrings(each: str) -> Iterator[tuple[str, str]]:
    """The docstring of a public name and of each of its own public members, as the site has it."""
    found = getattr(bastion, each)
    members = {each: found}
    if inspect.isclass(found):
        members |= {
            f"{each}.{name}": member for name, member in vars(found).items() if name[0] != "_"
        }
    for what, member in members.items():
        if docstring := inspect.getdoc(member):
            yield what, _laid_out(docstring)


def _warnings(text: str) -> str:
    """Return docutils' warnings about `text`."""
    told = io.StringIO()
    publish_doctree(text, settings_overrides={"report_level": 2, "warning_stream": told})
    return told.getvalue()


def _laid_out(docstring: str) -> str:
    from sphinx.ext.napoleon import Config
    from sphinx.ext.napoleon.docstring import GoogleDocstring

    lines = docstring.splitlines()
    SITE["_double_backticks"](None, "", "", None, None, lines)
    config = Config(napoleon_use_param=True, napoleon_use_rtype=True)
    return str(GoogleDocstring(lines, config))  # type: ignore[arg-type]  # it wants all of Sphinx's


def _built(site: Path, page: Path) -> Path:
    return site / page.relative_to(REPOSITORY).with_suffix(".html")
