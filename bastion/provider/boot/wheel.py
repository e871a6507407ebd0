"""
The wheel of this program, built from its own files.

The same files produce the same bytes, so the wheel is named by its digest. It is an ordinary wheel
with additional files: `agent-<cloud>.txt` lists what an agent needs besides Python for a bucket of
that cloud. `tpu-<cloud>.txt` and `bastion-<cloud>.txt` do the same for an agent on a TPU and for a
bastion. `pins.txt` lists the versions that this program runs with, and what is installed from the
wheel runs with the same versions.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

from bastion.value import value

DISTRIBUTION = "bastion-orchestrator"
PACKAGES = ("bastion", "bundler", "quota", "launch")
EXTRAS = {"file": "", "gs": "gcp", "s3": "aws", "az": "azure"}
"""What an agent needs in addition, by the scheme of its bucket: an extra of this distribution."""

TPU_EXTRA = "tpu"
"""What an agent on a TPU needs in addition: libtpu reports how busy the chips are."""

_RECORD = ("history", "metrics")
BASTION_EXTRAS: dict[str, tuple[str, ...]] = {
    "file": _RECORD,
    "gs": ("gcp", "gce", *_RECORD),
    "s3": ("aws", *_RECORD),
    "az": ("azure", *_RECORD),
}
"""
What a bastion needs in addition: for its bucket, for creating machines in the same cloud, for
compacting its record, and for Prometheus.
"""

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""Zip files cannot store an earlier date; a fixed date produces the same bytes."""
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_NAMED = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")


@value
class Wheel:
    """A wheel: its bytes, their SHA-256, and its file name."""

    name: str
    digest: str
    data: bytes


@cache
def own_wheel() -> Wheel:
    """Return the wheel of this program; an edited checkout has a different one."""
    top = Path(__file__).resolve().parents[3]
    version = _version()
    made = {
        path.relative_to(top).as_posix(): path.read_bytes()
        for package in PACKAGES
        for path in sorted((top / package).rglob("*.py"))
    }
    info = f"{DISTRIBUTION.replace('-', '_')}-{version}.dist-info"
    made |= {f"{info}/{name}": text.encode() for name, text in _metadata(version).items()}
    lines = [f"{path},sha256={_hash(data)},{len(data)}" for path, data in made.items()]
    made[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, data in made.items():
            entry = zipfile.ZipInfo(path, date_time=_LONG_AGO)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=6)
    data = packed.getvalue()
    name = f"{DISTRIBUTION.replace('-', '_')}-{version}-py3-none-any.whl"
    return Wheel(name=name, digest=hashlib.sha256(data).hexdigest(), data=data)


def needed(*extras: str) -> tuple[str, ...]:
    """Return what this program needs besides Python, as pip requirements, with some extras."""
    found = []
    for line in _requires(DISTRIBUTION):
        asked, _, marker = line.partition(";")
        of = _EXTRA.search(marker)
        is_own = _NAMED.match(asked)
        if is_own and is_own[1] == DISTRIBUTION:
            continue  # an extra that combines others
        if (of[1] if of else "") in ("", *extras):
            found.append(asked.strip())
    return tuple(sorted(found))


def _metadata(version: str) -> dict[str, str]:
    wanted = {f"agent-{kind}.txt": "\n".join(needed(extra)) for kind, extra in EXTRAS.items()}
    for kind, extra in EXTRAS.items():
        wanted[f"tpu-{kind}.txt"] = "\n".join(needed(extra, TPU_EXTRA))
    for kind, more in BASTION_EXTRAS.items():
        wanted[f"bastion-{kind}.txt"] = "\n".join(needed(*more))
    head = f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {version}\n"
    asked = "".join(f"Requires-Dist: {line}\n" for line in _requires(DISTRIBUTION))
    extras = sorted({of[1] for line in _requires(DISTRIBUTION) if (of := _EXTRA.search(line))})
    return wanted | {
        "pins.txt": "\n".join(sorted(set(_pins()))),
        "METADATA": head + "".join(f"Provides-Extra: {extra}\n" for extra in extras) + asked,
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": "[console_scripts]\nbastion = launch.cli:main\n",
    }


def _pins() -> Iterator[str]:
    """Yield every version that an agent can load; a constraint that nothing needs is harmless."""
    bastions = (extra for many in BASTION_EXTRAS.values() for extra in many)
    waiting = list(needed(*EXTRAS.values(), TPU_EXTRA, *bastions))
    seen: set[str] = set()
    while waiting:
        line = waiting.pop()
        found = _NAMED.match(line)
        if line in seen or found is None:
            continue
        seen.add(line)
        try:
            installed = distribution(found[1])
        except PackageNotFoundError:
            continue  # needed only on another platform
        yield f"{found[1].lower()}=={installed.version}"
        extras = {extra.strip() for extra in (found[2] or "").split(",")}
        for asked in installed.requires or ():
            of = _EXTRA.search(asked)
            if of is None or of[1] in extras:
                waiting.append(asked.partition(";")[0].strip())


@cache
def _requires(name: str) -> tuple[str, ...]:
    try:
        return tuple(requires(name) or ())
    except PackageNotFoundError:
        return ()


def _version() -> str:
    try:
        return distribution(DISTRIBUTION).version
    except PackageNotFoundError:
        return "0"


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
