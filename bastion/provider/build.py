"""The identity of this build of Bastion, which distinguishes agents of other builds."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_PACKAGES = ("bastion", "bundler", "quota")


@cache
def build_digest() -> str:
    """Return the SHA-256 of all program files; an edited checkout also has a different one."""
    top = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(path for package in _PACKAGES for path in (top / package).rglob("*.py")):
        digest.update(f"{path.relative_to(top)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
