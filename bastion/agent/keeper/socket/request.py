"""
The requests of a connection, checked: JSON in, plain values out, every error a sentence.

Clients of the socket run as the keeper's own user (the socket is 0600), but their requests are not
trusted to be well-formed. Standard library only.
"""

from __future__ import annotations

import math
import os
import re

KEY_BYTES = 255
"""Longest key, percent-encoded: it names a folder (Linux, NAME_MAX)."""

LINE_BYTES = 16 << 20
"""Longest request: environments of a few hundred processes. A longer one ends its connection."""

_SPECIAL = re.compile(rb"[^A-Za-z0-9_-]")

_SPECIAL_IF_LONG = re.compile(rb"[^A-Za-z0-9_.@+-]|^\.")
"""The longest keys keep the characters that names allow, so that they still name a folder."""


class BadRequestError(ValueError):
    """A malformed request; the message is the answer."""


class ProcessSpec:
    """One process to start."""

    __slots__ = ("argv", "cwd", "env")

    def __init__(self, value: object) -> None:
        fields = _object(value, "process")
        self.argv = _texts(fields.get("argv"), "argv")
        if not self.argv or not self.argv[0]:
            raise BadRequestError("argv is empty: it must begin with a program")
        env = _object(fields.get("env"), "env")
        self.env = {name: _secret(each, f"env {name}") for name, each in env.items()}
        for name in self.env:
            if not name or "=" in name or "\0" in name:
                raise BadRequestError(f"env has a variable named {name!r}")
        self.cwd = text(fields.get("cwd"), "cwd")


SIGNS = ("output", "devices", "processor")
"""The signs of life that a rule may name."""


class Rule:
    """When an attempt counts as hung."""

    __slots__ = ("devices", "ends", "signs", "timeout_s")

    def __init__(self, value: object) -> None:
        fields = _object(value, "idle")
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
    """The user that processes run as."""

    __slots__ = ("gid", "groups", "uid")

    def __init__(self, value: object) -> None:
        fields = _object(value, "run_as")
        self.uid, self.gid = _whole(fields.get("uid"), "uid"), _whole(fields.get("gid"), "gid")
        groups = fields.get("groups")
        if not isinstance(groups, list):
            raise BadRequestError(f"groups must be a list of numbers, not {groups!r:.80}")
        self.groups = [_whole(group, "groups") for group in groups]
        if not self.uid or os.geteuid():
            raise BadRequestError(
                f"run_as {self.uid} is impossible for user {os.geteuid()}: only root can become"
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
        "on_end_words",
        "path",
        "processes",
        "run_as",
        "secrets",
        "spool_limit_bytes",
        "umask",
        "undo",
    )

    def __init__(self, fields: dict[str, object]) -> None:
        self.key = key(fields)
        processes = fields.get("processes")
        if not isinstance(processes, list) or not processes:
            raise BadRequestError("processes must be a list of at least one process")
        self.processes = [ProcessSpec(process) for process in processes]
        user = fields.get("run_as")
        self.run_as = None if user is None else User(user)
        self.path = self.processes[0].env.get("PATH", os.defpath)
        """Search path of the keeper's tools; never a job's if the tools run as root."""
        if self.run_as is not None:
            self.path = os.defpath
        self.grace_s = seconds(fields.get("grace_s"), "grace_s")
        limit = fields.get("max_runtime_s")
        self.max_runtime_s = None if limit is None else seconds(limit, "max_runtime_s")
        memory = fields.get("memory_limit_bytes")
        self.memory_limit_bytes = None if memory is None else _whole(memory, "memory_limit_bytes")
        self.notice_path = text(fields.get("notice_path"), "notice_path")
        self.secrets = _secrets(fields.get("secrets", []))
        self.spool_limit_bytes = _whole(fields.get("spool_limit_bytes"), "spool_limit_bytes")
        self.umask = _whole(fields.get("umask"), "umask") & 0o777
        self.undo = _texts(fields.get("undo", []), "undo")
        if self.undo and not self.undo[0].startswith("/"):
            raise BadRequestError(f"undo must begin with the path of a program: {self.undo[0]!r}")
        rule, on_end = fields.get("idle"), fields.get("on_end")
        self.idle = None if rule is None else Rule(rule)
        self.on_end = None if on_end is None else ProcessSpec(on_end)
        self.on_end_words = _texts(fields.get("on_end_words", []), "on_end_words")
        self.on_end_s = seconds(fields.get("on_end_s", 0), "on_end_s")
        self.hold_s = seconds(fields.get("hold_s", 0), "hold_s")


def key(fields: dict[str, object]) -> str:
    """Return the key of a request."""
    found = text(fields.get("key"), "key")
    if not found or len(file_name(found)) > KEY_BYTES:
        raise BadRequestError(f"key {found!r} must have 1 to {KEY_BYTES} bytes as a file name")
    return found


def file_name(of_key: str) -> str:
    """Return the file name of a key: one to one, and never special to a file system."""
    name = _escaped(_SPECIAL, of_key)
    return name if len(name) <= KEY_BYTES else _escaped(_SPECIAL_IF_LONG, of_key)


def _escaped(special: re.Pattern[bytes], of_key: str) -> str:
    return special.sub(lambda found: b"%%%02X" % ord(found[0]), of_key.encode()).decode()


def text(value: object, name: str) -> str:
    """Return `value` as a string that a system call accepts."""
    if not isinstance(value, str) or "\0" in value:
        raise BadRequestError(f"{name} must be a string without NUL, not {value!r:.80}")
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadRequestError(f"{name} is not text: {value!r:.80}") from None
    return value


def seconds(value: object, name: str) -> float:
    """Return `value` as a number of seconds, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequestError(f"{name} must be a number of seconds, not {value!r:.80}")
    if not (math.isfinite(value) and value >= 0):
        raise BadRequestError(f"{name} must be finite and not negative, not {value!r}")
    return float(value)


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRequestError(f"{name} must be a whole number, 0 or more, not {value!r:.80}")
    return value


def _texts(value: object, name: str) -> list[str]:
    if not isinstance(value, list):
        raise BadRequestError(f"{name} must be a list of strings, not {value!r:.80}")
    return [text(part, name) for part in value]


def _secrets(value: object) -> list[str]:
    if not isinstance(value, list):
        raise BadRequestError("secrets must be a list of strings")
    return [_secret(each, "secrets") for each in value]


def _secret(value: object, name: str) -> str:
    """Return `value` as a string that a system call accepts, and show it in no error."""
    try:
        return text(value, name)
    except BadRequestError:
        raise BadRequestError(f"{name} must be text without NUL") from None


def _object(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise BadRequestError(f"{name} must be an object, not {value!r:.80}")
    return value
