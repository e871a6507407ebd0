"""
A replacement for Debian images of Python, made of Debian's own packages without a registry.

`python` and `pip` are invoked as in the original image, and install into the system. It trusts the
certificates that this machine trusts, because its network may need additional ones.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pytest

from tests.servers.dockerd import Dockerd

SUITE = "bookworm"
"""The Debian release with Python 3.11."""
PACKAGES = ("python3", "python3-pip", "python3-venv", "ca-certificates")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

needs_debootstrap = pytest.mark.skipif(
    shutil.which("debootstrap") is None, reason="needs debootstrap (Debian: debootstrap)"
)


def load_base(docker: Dockerd, image: str, folder: Path) -> None:
    """Create the base below `folder`, and load it as `image`."""
    system = folder / "system"
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE]
    subprocess.run([*command, str(system)], check=True, stdout=subprocess.DEVNULL)
    for marker in system.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    (system / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    shutil.copy(_CERTIFICATES, system / _CERTIFICATES.relative_to("/"))
    (system / "etc/pip.conf").write_text(f"[global]\ncert = {_CERTIFICATES}\n")
    with _packed(system) as tar:
        subprocess.run(["docker", "-H", docker.daemon, "import", "-", image], stdin=tar, check=True)
    shutil.rmtree(system)


@contextmanager
def _packed(system: Path) -> Iterator[IO[bytes]]:
    with TemporaryFile() as tar:
        with tarfile.open(fileobj=tar, mode="w") as archive:
            for name in sorted(path.name for path in system.iterdir()):
                archive.add(system / name, arcname=name)
        tar.seek(0)
        yield tar
