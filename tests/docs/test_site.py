"""The site is built from the same pages, without one warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bastion import __all__ as public
from tests.docs.pages import PAGES, REPOSITORY, name


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


def _built(site: Path, page: Path) -> Path:
    return site / page.relative_to(REPOSITORY).with_suffix(".html")
