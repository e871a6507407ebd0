"""The installed command: a wheel built from this tree, installed separately, run as users do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.end_to_end.programs import REPOSITORY, Programs
from tests.end_to_end.roots import Place

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 16
[project_membership]
red = ["alice"]
blue = ["alice", "bob"]
[project_resources.red]
h100 = 0.5
[project_resources.blue]
h100 = 0.5
[scheduler]
min_runtime_s = 0
grace_s = 5
"""


def build_wheel(into: Path) -> Path:
    """Build a wheel of this tree."""
    argv = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*argv, f"--wheel-dir={into}", str(REPOSITORY)], check=True)
    (wheel,) = into.glob("*.whl")
    return wheel


class Installed(Programs):
    """Bastion as a user has it: a separate installation, and scripts named like our modules."""

    def __init__(self, folder: Path, place: Place, wheel: Path) -> None:
        super().__init__(folder, place)
        site = folder / "site"
        argv = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", f"--target={site}"]
        subprocess.run([*argv, str(wheel)], check=True)
        self.env["PYTHONPATH"] = str(site)
        self.command = [sys.executable, str(site / "bin" / "bastion")]
        shadow = "raise SystemExit('the user\\'s own launch.py was imported')\n"
        (self.project / "launch.py").write_text(shadow)
