"""
Patterns in the syntax of `.gitignore`, matched the way git matches them.

It is our own code because the existing libraries also match paths *below* an ignored folder, where
git checks one entry at a time on the way down (`*`, `!*/`, `!*.py` then has another result), and
they lack character classes. The rules work on bytes, as git's do. The tests compare this file with
git on random patterns and trees.

Source: gitignore(5); for what it leaves open, `dir.c` and `wildmatch.c` of git.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass

_CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, [*range(32), 127])),
    "digit": string.digits,
    "graph": string.ascii_letters + string.digits + string.punctuation,
    "lower": string.ascii_lowercase,
    "print": string.ascii_letters + string.digits + string.punctuation + " ",
    "punct": string.punctuation,
    "space": " \t\n\r\f\v",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}
_NEVER = rb"(?!)"
_CLASS_NAME = re.compile(rb"\[:([^]]*):\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of an ignore file."""

    pattern: re.Pattern[bytes]
    keeps: bool
    """The line began with `!`: matching entries are kept."""
    folders_only: bool
    whole_path: bool
    """It matches the path relative to the ignore file's folder; else only the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """
    The lines of one ignore file; the last match wins.

    Two combined patterns answer "no match", by far the most frequent answer, at once.
    """

    above: bytes
    """Prefix that makes a path of our tree relative to the ignore file's folder."""
    below: int
    """Bytes to remove from its front instead."""
    rules: tuple[Rule, ...]
    names: re.Pattern[bytes]
    paths: re.Pattern[bytes]

    def verdict(self, path: bytes, name: bytes, *, is_folder: bool) -> bool | None:
        """
        True: ignored. False: kept by a `!` line. None: no line matches.

        Args:
            path: Relative to the top of our tree, `/`-separated.
            name: Its last part.
            is_folder: Whether it is a real folder and not a link to one.
        """
        local = self.above + path[self.below :]
        if not (self.names.match(name) or self.paths.match(local)):
            return None
        for rule in reversed(self.rules):
            if rule.folders_only and not is_folder:
                continue
            if rule.pattern.match(local if rule.whole_path else name):
                return not rule.keeps
        return None


def parse_rules(text: bytes, *, above: bytes = b"", below: int = 0) -> Rules:
    """Parse the bytes of an ignore file; `above` and `below` as in `Rules`."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    rules = tuple(rule for rule in map(_parse_line, lines) if rule)
    return Rules(
        above=above,
        below=below,
        rules=rules,
        names=_any_of(rule.pattern.pattern for rule in rules if not rule.whole_path),
        paths=_any_of(rule.pattern.pattern for rule in rules if rule.whole_path),
    )


def _any_of(patterns: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(patterns) or _NEVER, re.DOTALL)


def _parse_line(line: bytes) -> Rule | None:
    text = _without_trailing_blanks(line.removesuffix(b"\r"))
    if not text or text.startswith(b"#"):
        return None
    keeps = text.startswith(b"!")
    text = text.removeprefix(b"!")
    folders_only = text.endswith(b"/")
    text = text.removesuffix(b"/")
    if not text:
        return None
    whole_path = b"/" in text
    return Rule(
        pattern=re.compile(_translate(text.removeprefix(b"/")), re.DOTALL),
        keeps=keeps,
        folders_only=folders_only,
        whole_path=whole_path,
    )


def _without_trailing_blanks(line: bytes) -> bytes:
    stripped = line.rstrip(b" ")
    backslashes = len(stripped) - len(stripped.rstrip(b"\\"))
    cut = len(stripped) + (backslashes % 2 if len(stripped) < len(line) else 0)
    return line[:cut]


def _translate(glob: bytes) -> bytes:
    out = []
    at = 0
    while at < len(glob):
        char = glob[at : at + 1]
        if char == b"*":
            piece, at = _star(glob, at)
        elif char == b"[":
            piece, at = _bracket(glob, at)
        elif char == b"\\":
            piece = re.escape(glob[at + 1 : at + 2]) or _NEVER
            at += 2
        else:
            piece, at = (b"[^/]" if char == b"?" else re.escape(char)), at + 1
        out.append(piece)
    return b"(?:" + b"".join(out) + rb")\Z"


def _star(glob: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while glob[end : end + 1] == b"*":
        end += 1
    alone = at == 0 or glob[at - 1 : at] == b"/"
    if end - at == 1 or not alone or glob[end : end + 1] not in (b"", b"/"):
        return b"[^/]*", end
    return (b".*", end) if end == len(glob) else (b"(?:.*/)?", end + 1)


def _bracket(glob: bytes, at: int) -> tuple[bytes, int]:
    """Parse a bracket expression; a malformed one matches nothing."""
    at += 1
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    first = True
    while first or glob[at : at + 1] != b"]":
        first = False
        if named := _CLASS_NAME.match(glob, at):
            if named[1].decode("latin-1") not in _CLASSES:
                return _NEVER, len(glob)
            members.update(_CLASSES[named[1].decode()].encode())
            at = named.end()
            continue
        low, at = _member(glob, at)
        high = low
        if glob[at : at + 1] == b"-" and glob[at + 1 : at + 2] not in (b"", b"]"):
            high, at = _member(glob, at + 1)
        if low < 0 or high < 0 or at >= len(glob):
            return _NEVER, len(glob)
        members.update(range(low, high + 1))
    chosen = (set(range(256)) - members if negated else members) - {ord("/")}
    listed = b"".join(rb"\x%02x" % byte for byte in sorted(chosen))
    return (b"[" + listed + b"]" if chosen else _NEVER), at + 1


def _member(glob: bytes, at: int) -> tuple[int, int]:
    """Return one byte of a set and the next position; a backslash quotes, -1 is past the end."""
    at += glob[at : at + 1] == b"\\"
    return (glob[at], at + 1) if at < len(glob) else (-1, at)
