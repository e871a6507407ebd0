"""
The documentation pages that ship with the program: `bastion help NAME` prints one.

A page has the name of its file: an error, a reason, a guide or a reference page. Case, dashes and
underscores do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_FOLDERS = ("errors", "reasons", "guides", "reference", "explanation", "")
_LISTED = ("errors", "reasons")
_PACKAGED = Path(__file__).parent / "pages"
_CHECKOUT = Path(__file__).parents[1] / "docs"


def pages() -> Mapping[str, Path]:
    """Return every page by name, errors and reasons first."""
    top = _top()
    found = [page for folder in _FOLDERS for page in sorted((top / folder).glob("*.md"))]
    return {page.stem: page for page in found if page.stem != "README"}


def _top() -> Path:
    return _PACKAGED if _PACKAGED.exists() else _CHECKOUT


def find_page(name: str) -> Path | None:
    """Return the page of that name, or None; `errors` and `reasons` are the lists of them."""
    wanted = _plain(name)
    if wanted in _LISTED:
        return _top() / wanted / "README.md"
    return next((page for stem, page in pages().items() if _plain(stem) == wanted), None)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
