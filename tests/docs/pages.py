"""
The documentation as tests read it: pages, headings, links, and the blocks that are run.

A fenced block is run when the line before it is `<!-- run -->`. In a `console` block each line that
begins with `$ ` is a command, lines after it that begin with `>` continue it, and the rest is
its output, both streams together; `...` matches anything. A `python` block is a program that must
exit with 0. The blocks of one page run in order, in one empty folder that has `examples/` in it.

A recipe is a page that changes the code. Its blocks run in a copy of the tree, and two more kinds
of block are applied there, in order. After `<!-- new: PATH -->` comes a new file. After
`<!-- change: PATH -->` comes a diff of a place that occurs once in that file; the last line of a
diff may be the beginning of a line of the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
PAGES = tuple(
    sorted(
        [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")],
        key=lambda page: page.parts,
    )
)

_RUNNABLE = re.compile(r"^<!-- run -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EDIT = re.compile(r"^<!-- (new|change): (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WELL = "exited with 0"
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)|\[`[^`\n]*`\]\(([^)\s]+)\)")


class Step(NamedTuple):
    """One command of a page and what the page says it prints."""

    command: str
    printed: str


def name(page: Path) -> str:
    """Return the path of the page in the repository."""
    return page.relative_to(REPOSITORY).as_posix()


def steps(text: str) -> list[Step]:
    """
    Return every command of a page that is to be run, in order.

    Raises:
        ValueError: A block is marked to be run, and its language is unknown.
    """
    found: list[Step] = []
    for language, block in _RUNNABLE.findall(text):
        if language == "console":
            found += _console(block)
        elif language == "python":
            run = f"python3 - <<'EOF_OF_PAGE' && echo {_WELL}\n{block}EOF_OF_PAGE"
            found.append(Step(run, f"...{_WELL}\n"))
        else:
            raise ValueError(f"cannot run a {language} block; console and python can be run")
    return found


class Edit(NamedTuple):
    """One change that a recipe makes to a copy of the tree."""

    path: str
    block: str
    is_new: bool

    def apply(self, tree: Path) -> None:
        """
        Make the change.

        Raises:
            ValueError: The place to change does not occur exactly once.
        """
        file = tree / self.path
        if self.is_new:
            file.write_text(self.block)
            return
        lines = self.block.splitlines()
        old = "".join(f"\n{line[1:]}" for line in lines if not line.startswith("+"))
        new = "".join(f"\n{line[1:]}" for line in lines if not line.startswith("-"))
        text = f"\n{file.read_text()}"
        if text.count(old) != 1:
            raise ValueError(f"{self.path} has {text.count(old)} places like this:{old}")
        file.write_text(text.replace(old, new).removeprefix("\n"))


def recipe(text: str) -> list[Edit | Step]:
    """Return every edit and every command of a recipe, in order."""
    found: list[tuple[int, Edit | Step]] = [
        (each.start(), Edit(path=each[2], block=each[3], is_new=each[1] == "new"))
        for each in _EDIT.finditer(text)
    ]
    for each in _RUNNABLE.finditer(text):
        found += [(each.start(), step) for step in steps(each[0])]
    return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def is_recipe(text: str) -> bool:
    """Whether the page changes the code."""
    return _EDIT.search(text) is not None


def links(text: str) -> list[str]:
    """Return the targets of links into this repository: `path`, `path#heading` or `#heading`."""
    prose = _FENCED.sub("", text)
    targets = [first or second for first, second in _LINK.findall(prose)]
    return [each for each in targets if "://" not in each and not each.startswith("mailto:")]


def headings(text: str) -> list[str]:
    """Return the page's headings, without their marks."""
    return re.findall(r"^#{1,6} (.+?)\s*$", _FENCED.sub("", text), re.MULTILINE)


def anchor(heading: str) -> str:
    """Return the anchor of a heading: lower case, dashes for blanks, no other signs."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")


def _console(block: str) -> list[Step]:
    found: list[Step] = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, rest = part.partition("\n")
        lines = rest.splitlines(keepends=True)
        while lines and lines[0].startswith(">"):
            command += "\n" + lines.pop(0).removeprefix(">").removeprefix(" ").rstrip("\n")
        found.append(Step(command, "".join(lines)))
    return found


def resolves(page: Path, link: str) -> bool:
    """Whether the target of `link`, written on `page`, exists."""
    path, _, fragment = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(REPOSITORY):
        return False
    found = [anchor(each) for each in headings(target.read_text())] if fragment else []
    return not fragment or fragment in found
