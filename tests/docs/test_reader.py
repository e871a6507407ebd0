"""The parser of pages that these tests use is correct."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages

PAGE = """# A page

Go [there](there.md#so), or [`here`](#a-page), or [away](https://example.com/x.md).

<!-- run -->
```console
$ echo one
one
$ cat <<END
> two
>
> END
two

$ true
```

```console
$ rm -rf never-run
```

<!-- run -->
```python
print("[no](link.md)")
```
"""


def test_marked_blocks_become_steps() -> None:
    """Only marked blocks are run, command by command, with what they should print."""
    one, two, true, program = pages.steps(PAGE)
    assert one == ("echo one", "one\n")
    assert two == ("cat <<END\ntwo\n\nEND", "two\n\n")
    assert true == ("true", "")
    assert 'print("[no](link.md)")' in program.command


def test_an_unknown_language_is_refused() -> None:
    """A block marked to run in a language that cannot be run is an error, not skipped."""
    with pytest.raises(ValueError, match="cannot run a toml block"):
        pages.steps("<!-- run -->\n```toml\nx = 1\n```\n")


def test_links_are_those_of_the_prose() -> None:
    """Links in code and links to other places are ignored."""
    assert pages.links(PAGE) == ["there.md#so", "#a-page"]


@pytest.mark.parametrize(
    ("link", "whole"),
    [
        ("glossary.md", True),
        ("glossary.md#where-it-runs", True),
        ("glossary.md#no-such-heading", False),
        ("no-such-page.md", False),
        ("../../outside.md", False),
    ],
)
def test_a_broken_link_is_seen(link: str, whole: bool) -> None:
    """A link resolves when its file exists and has the heading."""
    assert pages.resolves(Path(pages.REPOSITORY / "docs" / "README.md"), link) is whole
