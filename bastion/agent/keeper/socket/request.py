"""
What a connection may ask, checked: JSON in, plain values out, every error a sentence.

The keeper trusts nobody who speaks to its socket to be well-formed, only to be its own user (the
socket is 0600). Standard library only.
"""

from __future__ import annotations

import math
import os
import re

KEY_BYTES = 255
"""Longest key, percent-encoded: it names a folder (Linux, NAME_MAX)."""

_PLAIN = re.compile(rb"[A-Za-z0-9_-]")


class BadRequestError(ValueError):
    """A request that cannot be done as it stands; the message is the answer."""


class Wanted:
    """One process to start."""

    __slots__ = ("argv", "cwd", "env")

    def __init__(self, said: object) -> None:
        fields = _object(said, "process")
        self.argv = _texts(fields.get("argv"), "argv")
        if not self.argv or not self.argv[0]:
            raise BadRequestError("argv is empty: it must begin with a program")
        env = _object(fields.get("env"), "env")
        self.env = {name: _secret(value, f"env {name}") for name, value in env.items()}
        for name in self.env:
            if not name or "=" in name or "\0" in name:
                raise BadRequestError(f"env has a variable named {name!r}")
        self.cwd = text(fields.get("cwd"), "cwd")


SIGNS = ("output", "devices", "processor")
"""What a rule may count as a sign of life."""


class Rule:
    """When an attempt is taken for hung."""

    __slots__ = ("devices", "ends", "signs", "timeout_s")

    def __init__(self, said: object) -> None:
        fields = _object(said, "idle")
        self.timeout_s = seconds(fields.get("timeout_s"), "timeout_s")
        self.ends = fields.get("ends") is True
        self.signs = _texts(fields.get("signs"), "signs")
        devices = fields.get("devices")
        if not isinstance(devices, list):
            raise BadRequestError(f"devices must be a list of numbers, not {devices!r:.80}")
        self.devices = frozenset(_whole(index, "devices") for index in devices)
        if not self.timeout_s or not set(self.signs) <= set(SIGNS):
            raise BadRequestError(f"idle must have a time and signs of {', '.join(SIGNS)}")


class User:
    """Whom processes run as."""

    __slots__ = ("gid", "groups", "uid")

    def __init__(self, said: object) -> None:
        fields = _object(said, "run_as")
        self.uid, self.gid = _whole(fields.get("uid"), "uid"), _whole(fields.get("gid"), "gid")
        groups = fields.get("groups")
        if not isinstance(groups, list):
            raise BadRequestError(f"groups must be a list of numbers, not {groups!r:.80}")
        self.groups = [_whole(group, "groups") for group in groups]
        if not self.uid or os.geteuid():
            raise BadRequestError(
                f"run_as {self.uid} cannot be done by user {os.geteuid()}: only root becomes"
                " another user"
            )


class Start:
    """A whole attempt to start."""

    __slots__ = (
        "grace_s",
        "hold_s",
        "idle",
        "key",
        "max_runtime_s",
        "memory_limit_bytes",
        "notice_path",
        "on_end",
        "on_end_s",
        "path",
        "processes",
        "run_as",
        "secrets",
        "spool_limit_bytes",
        "umask",
        "undo",
    )

    def __init__(self, said: dict[str, object]) -> None:
        self.key = key(said)
        processes = said.get("processes")
        if not isinstance(processes, list) or not processes:
            raise BadRequestError("processes must be a list of at least one process")
        self.processes = [Wanted(process) for process in processes]
        user = said.get("run_as")
        self.run_as = None if user is None else User(user)
        self.path = self.processes[0].env.get("PATH", os.defpath)
        """Where the keeper finds programs to ask about it: what root runs comes from no job."""
        if self.run_as is not None:
            self.path = os.defpath
        self.grace_s = seconds(said.get("grace_s"), "grace_s")
        limit = said.get("max_runtime_s")
        self.max_runtime_s = None if limit is None else seconds(limit, "max_runtime_s")
        memory = said.get("memory_limit_bytes")
        self.memory_limit_bytes = None if memory is None else _whole(memory, "memory_limit_bytes")
        self.notice_path = text(said.get("notice_path"), "notice_path")
        self.secrets = _secrets(said.get("secrets", []))
        self.spool_limit_bytes = _whole(said.get("spool_limit_bytes"), "spool_limit_bytes")
        self.umask = _whole(said.get("umask"), "umask") & 0o777
        self.undo = _texts(said.get("undo", []), "undo")
        if self.undo and not self.undo[0].startswith("/"):
            raise BadRequestError(f"undo must begin with the path of a program: {self.undo[0]!r}")
        rule, on_end = said.get("idle"), said.get("on_end")
        self.idle = None if rule is None else Rule(rule)
        self.on_end = None if on_end is None else Wanted(on_end)
        self.on_end_s = seconds(said.get("on_end_s", 0), "on_end_s")
        self.hold_s = seconds(said.get("hold_s", 0), "hold_s")


def key(said: dict[str, object]) -> str:
    """The key of a request."""
    found = text(said.get("key"), "key")
    if not found or len(file_name(found)) > KEY_BYTES:
        raise BadRequestError(f"key {found!r} must have 1 to {KEY_BYTES} bytes as a file name")
    return found


def file_name(of_key: str) -> str:
    """A key as the name of one file: one to one, and never special to a file system."""
    return "".join(
        chr(byte) if _PLAIN.match(bytes((byte,))) else f"%{byte:02X}" for byte in of_key.encode()
    )


def text(said: object, name: str) -> str:
    """A string that a system call takes."""
    if not isinstance(said, str) or "\0" in said:
        raise BadRequestError(f"{name} must be a string without NUL, not {said!r:.80}")
    try:
        said.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadRequestError(f"{name} is not text: {said!r:.80}") from None
    return said


def seconds(said: object, name: str) -> float:
    """A number of seconds, 0 or more."""
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise BadRequestError(f"{name} must be a number of seconds, not {said!r:.80}")
    if not (math.isfinite(said) and said >= 0):
        raise BadRequestError(f"{name} must be finite and not negative, not {said!r}")
    return float(said)


def _whole(said: object, name: str) -> int:
    if isinstance(said, bool) or not isinstance(said, int) or said < 0:
        raise BadRequestError(f"{name} must be a whole number, 0 or more, not {said!r:.80}")
    return said


def _texts(said: object, name: str) -> list[str]:
    if not isinstance(said, list):
        raise BadRequestError(f"{name} must be a list of strings, not {said!r:.80}")
    return [text(part, name) for part in said]


def _secrets(said: object) -> list[str]:
    if not isinstance(said, list):
        raise BadRequestError("secrets must be a list of strings")
    return [_secret(value, "secrets") for value in said]


def _secret(said: object, name: str) -> str:
    """A string that a system call takes, and that no error may show."""
    try:
        return text(said, name)
    except BadRequestError:
        raise BadRequestError(f"{name} must be text without NUL") from None


def _object(said: object, name: str) -> dict[str, object]:
    if not isinstance(said, dict):
        raise BadRequestError(f"{name} must be an object, not {said!r:.80}")
    return said
