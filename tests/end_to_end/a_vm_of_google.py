"""The bastion's VM after its boot: a process on this machine that runs its start-up script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil

from tests.end_to_end.programs import DEADLINE_S, Programs
from tests.servers.google import Compute


def boot(here: Programs, cloud: Compute, name: str, tools: Path | None = None) -> None:
    """
    Run the start-up script of the VM `name`, as Google's guest agent does.

    `tools` is a folder of programs that this VM has.
    """
    (item,) = cloud.vm(name).fields["metadata"]["items"]
    shell = shutil.which("sh")
    assert shell is not None
    environ = {
        **here.env,
        "PATH": f"{tools or Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin",
        "BASTION_BOOT_DIR": str(here.folder / "vm"),
    }
    del environ["PYTHONPATH"]
    subprocess.run([shell, "-c", item["value"]], env=environ, check=True, timeout=DEADLINE_S)


def stop_vm(folder: Path) -> None:
    """Kill what the VM's script started: first the loop that would restart the bastion."""
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get("BASTION_BOOT_DIR", "").startswith(str(folder))
            if is_ours and process.cmdline()[-2:] == ["sh", "run"]:
                process.kill()
        except psutil.Error:
            continue
