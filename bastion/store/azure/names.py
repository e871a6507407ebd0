"""
The names of blobs for keys: ASCII only, in the same order as the keys.

Azure does not document how it sorts other characters, and its emulator sorts them by their UTF-16
units. So each byte of a key's UTF-8 that is not ASCII becomes `~` and two digits, and so does `~`
itself, the last printable character. The names are then in the order of the keys.

Azure may change a name with a backslash, or with a part that ends in a dot, so such keys have no
name.

Source: "Naming and referencing containers, blobs, and metadata".
"""

from __future__ import annotations

from quota.pattern import pattern

NAME_CHARS = 1024
"""Longest name of a blob, with the prefix of the root."""

_ESCAPED = pattern("~[0-9A-F]{2}|[^~]")
_LAST_ASCII = 0x7F
_ESCAPE = ord("~")


def name_of(text: str) -> str:
    """Return the name for a key, or for the beginning of one."""
    if text.isascii() and "~" not in text:
        return text
    return "".join(
        f"~{byte:02X}" if byte == _ESCAPE or byte > _LAST_ASCII else chr(byte)
        for byte in text.encode(errors="surrogatepass")
    )


def key_of(name: str) -> str | None:
    """Return the key for a name; None if no key has it."""
    if not name.isascii():
        return None
    if "~" not in name:
        return name
    parts = _ESCAPED.findall(name)
    if "".join(parts) != name:
        return None
    data = bytes(int(part[1:], 16) if len(part) > 1 else ord(part) for part in parts)
    try:
        key = data.decode()
    except UnicodeDecodeError:
        return None
    return key if name_of(key) == name else None


def misfit(key: str, prefix: str) -> str:
    """Return why there is no name for a key below `prefix`; empty if there is one."""
    if "\\" in key:
        return "has a backslash"
    if "./" in key or key.endswith("."):
        return "has a part that ends in a dot"
    if len(name_of(prefix + key)) > NAME_CHARS:
        return "is too long"
    return ""
