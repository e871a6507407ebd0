"""
Untrusted text on a terminal: control characters are escaped, never sent.

The output of a job, a name or a server's answer can contain sequences that set a window's title,
clear the screen, or overwrite text. Characters that change the direction of text are escaped too.
"""

from __future__ import annotations

import codecs
import re

from quota.pattern import pattern

_UNSAFE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""
C0 except tab and line feed, DEL, C1; direction marks, embeddings, overrides and isolates; line and
paragraph separators. Source: Unicode 15, UAX 9; ECMA-48.
"""
_CODES = r"(?:0|1|2|31|32|33|34|35|90|38;5;208)"
"""The colors that this program uses."""
_PAINTED = pattern(rf"(\x1b\[{_CODES}m)|([{_UNSAFE}])")
_COLOR = r"\x1b\[[0-9;:]{0,32}m"
_PRINTED = pattern(rf"({_COLOR}|\r)|([{_UNSAFE}])")
_OPEN = pattern(r"\x1b(?:\[[0-9;:]{0,32})?\Z")


def visible(text: str) -> str:
    """Return the text with every unsafe character escaped; our own colors are kept."""
    # Printable text, the usual case, has none of the unsafe characters.
    return text if text.isprintable() else _PAINTED.sub(_shown, text)


def all_visible(texts: list[str]) -> list[str]:
    """Return each text made visible; a single check of all texts covers the usual case."""
    return texts if "".join(texts).isprintable() else [visible(text) for text in texts]


class TerminalBytes:
    """
    Makes the output of a job safe for a terminal, piece by piece.

    Colors and carriage returns pass, because progress bars use them. Everything else is escaped.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""

    def safe(self, data: bytes, *, final: bool = False) -> bytes:
        """Return the bytes to write now; an incomplete sequence waits for its rest."""
        text = self._rest + self._decoder.decode(data, final)
        found = None if final else _OPEN.search(text)
        self._rest = found[0] if found else ""
        text = text[: len(text) - len(self._rest)]
        return _PRINTED.sub(_shown, text).encode(errors="backslashreplace")


def _shown(found: re.Match[str]) -> str:
    if found[1] is not None:
        return found[1]
    code = ord(found[2])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
