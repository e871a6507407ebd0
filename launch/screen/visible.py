"""
Foreign text on a terminal: control characters are shown, never sent.

What a job printed, what a name holds, what a server answered may carry sequences that set a
window's title, clear the screen, or write other text over what stands. Characters that change how
text beside them is read are shown too.
"""

from __future__ import annotations

import codecs
import re

_UNSAFE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""
C0 but tab and line feed, DEL, C1; marks, embeddings, overrides and isolates of direction; breaks of
lines and paragraphs. Source: Unicode 15, UAX 9; ECMA-48.
"""
_CODES = r"(?:0|1|2|31|32|33|34|35|90|38;5;208)"
"""The colours that this command paints with."""
_PAINTED = re.compile(rf"(\x1b\[{_CODES}m)|([{_UNSAFE}])")
_COLOR = r"\x1b\[[0-9;:]{0,32}m"
_PRINTED = re.compile(rf"({_COLOR}|\r)|([{_UNSAFE}])")
_OPEN = re.compile(r"\x1b(?:\[[0-9;:]{0,32})?\Z")


def visible(text: str) -> str:
    """The text with every unsafe character as an escape; our own colours are left."""
    return text if text.isascii() and text.isprintable() else _PAINTED.sub(_shown, text)


class TerminalBytes:
    """
    What a job prints, made safe for a terminal piece by piece.

    Colours and carriage returns pass: progress bars are made of them. All else is shown.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""

    def safe(self, data: bytes, *, final: bool = False) -> bytes:
        """What may be written now; the beginning of a sequence waits for the rest of it."""
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
