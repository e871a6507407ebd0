"""The installed page server over a folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.end_to_end.programs import until

COMMAND = str(Path(sys.executable).with_name("bastion"))


@contextmanager
def served(root: Path, *, port: int = 0) -> Iterator[str]:
    """Serve the pages over the folder at `root`; return the address."""
    log = root.with_suffix(".log")
    with log.open("wb") as file:
        argv = [COMMAND, "web", f"--root=file://{root}", f"--port={port}"]
        process = subprocess.Popen(argv, stdout=file, stderr=file, cwd=root)
    try:
        until(lambda: "the page is" in log.read_text(), "the page is served")
        yield log.read_text().partition("the page is ")[2].partition(";")[0].rstrip("/")
    finally:
        process.terminate()
        assert process.wait(20) == 0, log.read_text()
    assert "Traceback" not in log.read_text()
