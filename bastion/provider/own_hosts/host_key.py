"""
OpenSSH's message about a host whose key it refuses, in one line that says what to do.

OpenSSH prints a dozen lines, and the last one names neither the host nor the key nor the file.
"""

from __future__ import annotations

import re

_CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"
_REFUSED = "Host key verification failed."
_NAME = re.compile(r"^(?:Host key for|No \S+ host key is known for) (\S+) ", re.MULTILINE)
_SENT = re.compile(r"^The fingerprint for the (\S+) key .* is\r?\n(\S+?)\.?\r?$", re.MULTILINE)
_KEPT = re.compile(r"^Offending .* key in (.+):(\d+)\r?$", re.MULTILINE)


def key_problem(way: str, told: str) -> str:
    """
    Return why the key of a host, or of a jump host before it, is refused; empty if it is not.

    Args:
        way: The command that connects to it, with its configuration and the name that the pool has.
        told: The output of OpenSSH.
    """
    if _REFUSED not in told:
        return ""
    named = _NAME.search(told)
    name = f"the key of {named[1]}" if named else "its key"
    once = f"then run once manually: {way} true"
    if _CHANGED not in told:
        return f"{name} is not in known_hosts, so nothing was sent; compare the key, {once}"
    sent, kept = _SENT.search(told), _KEPT.search(told)
    new = f" to {sent[1]} {sent[2]}" if sent else ""
    old = f"line {kept[2]} of {kept[1]}" if kept else "the old key"
    return (
        f"{name} has changed{new}, so nothing was sent; if the host was reinstalled, compare the"
        f" key, remove {old}, {once}"
    )
