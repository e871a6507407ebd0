"""The command as a separate process: how it is started, and in which environment."""

from __future__ import annotations

import sys
from pathlib import Path

import launch
from tests.launch.bucket import Bucket

ROOT = Path(launch.__file__).parents[1]
COMMAND = (sys.executable, "-m", "launch.cli")


def environment(bucket: Bucket, tmp_path: Path) -> dict[str, str]:
    """Return what the command needs, and nothing of the person who runs the test."""
    return {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "BASTION_ROOT": bucket.url,
        "BASTION_USER": "ada",
    }
