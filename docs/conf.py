"""
How Sphinx builds the site: `make docs`, from the same pages that a repository shows.

The list of pages in docs/README.md is the navigation, so a page has its place there alone.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from bastion.version import VERSION

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Bastion"
version = release = VERSION
copyright = "the Bastion authors"  # noqa: A001 (Sphinx reads this name)
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "examples/**/README.md"]
exclude_patterns = [".*", "build", "tests"]  # else every file of an environment is looked at
suppress_warnings = ["toc.not_included"]  # a test follows the links to every page
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_title = "Bastion"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "undoc-members": False, "inherited-members": False}
nitpicky = False

_PAGE = re.compile(r"\[[^\]]+\]\(([\w./-]+\.md)\)")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_INDEXES = ("docs/reasons/README", "docs/errors/README", "docs/decisions/README")


def setup(app: Sphinx) -> None:
    """Connect what turns lists of pages into navigation, and docstrings into reStructuredText."""
    app.connect("source-read", _navigate)
    app.connect("autodoc-process-docstring", _double_backticks, priority=400)  # before napoleon


def _double_backticks(*event: object) -> None:
    """Docstrings have single backticks, as Markdown does."""
    lines = event[-1]
    assert isinstance(lines, list)
    lines[:] = [_CODE.sub(r"``\1``", line) for line in lines]


def _navigate(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the navigation to the pages that list others, hidden because the list is visible."""
    if page == root_doc:
        index = (Path(app.srcdir) / "docs" / "README.md").read_text()
        source[0] += _tree("", ["docs/README.md"]) + _trees(index, under="docs/")
        source[0] += _tree("The project", ["CHANGELOG.md", "SECURITY.md"])
    elif page in _INDEXES:
        source[0] += _trees(source[0])


def _trees(text: str, under: str = "") -> str:
    """Return the navigation of a page, one tree for each of its sections."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    named = zip(["", *parts[1::2]], parts[::2])
    return "".join(
        _tree(name, [f"{under}{path}" for path in _listed(part)]) for name, part in named
    )


def _listed(text: str) -> list[str]:
    """Return the pages that a section leads to, each once."""
    return [path for path in dict.fromkeys(_PAGE.findall(text)) if not path.startswith("..")]


def _tree(caption: str, pages: list[str]) -> str:
    if not pages:
        return ""
    lines = [f":caption: {caption}"] if caption else []
    named = [str(PurePosixPath(page).with_suffix("")) for page in pages]
    return "\n".join(["", "", "```{toctree}", ":hidden:", *lines, "", *named, "```", ""])
