"""
localstack as an S3 server that shares no code with moto, in a separate environment.

It is 330 MB, too large for a dependency, and later releases need an account. So one version, with
the dependencies of its time, is installed once and kept in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.s3 import ask_until_it_answers, credentials, free_port

VERSION = "4.8.1"
BEFORE = "2025-09-20"
"""Dependencies are installed as of this date: newer releases of them do not work with it."""
NAMED = "LOCALSTACK"
"""The environment variable that names the Python of an existing installation."""


@contextmanager
def localstack_server(folder: Path) -> Iterator[str]:
    """Run a server with a bucket `bucket`, and give its URL; `folder` is for its use alone."""
    address = f"127.0.0.1:{free_port()}"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GATEWAY_LISTEN": address,
        "GATEWAY_SERVER": "hypercorn",
        "SERVICES": "s3",
        "DISABLE_EVENTS": "1",
        "LOCALSTACK_VOLUME_DIR": str(folder / "localstack"),
    }
    argv = [localstack_python(), "-m", "localstack.runtime.main"]
    with (folder / "localstack.log").open("wb") as log:
        server = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
    try:
        with credentials():
            ask_until_it_answers(f"http://{address}")
        yield f"http://{address}"
    finally:
        server.kill()  # it has no data to keep, and a graceful stop may take minutes
        server.wait(timeout=30)


def localstack_python() -> str:
    """Return a Python that has localstack; install it first if necessary."""
    if NAMED in os.environ:
        return os.environ[NAMED]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bastion-tests"
    kept = cache / f"localstack-{VERSION}"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cache)) / "environment"
        try:
            _install(made)
            made.rename(kept)
        finally:
            shutil.rmtree(made.parent)
    return str(kept / "bin" / "python")


def _install(folder: Path) -> None:
    """
    Install it in `folder`; the folder may be moved afterwards.

    Skip the test if the registry is unreachable.
    """
    uv = [sys.executable, "-m", "uv"]
    make = [*uv, "venv", "--quiet", "--relocatable", f"--python={sys.executable}", str(folder)]
    fill = [*uv, "pip", "install", "--quiet", f"--python={folder}", f"--exclude-newer={BEFORE}"]
    for command in (make, [*fill, f"localstack-core[runtime]=={VERSION}"]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            pytest.skip(f"localstack cannot be installed here: {done.stderr[-500:]}")
