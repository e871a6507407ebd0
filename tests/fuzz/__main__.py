"""
Run a coverage-guided fuzzer on one door.

    python -m tests.fuzz requests -runs=100000 -max_total_time=60

Arguments after the door's name are libFuzzer's. An input that crashes a door, or takes more than
ten seconds or 2 GiB, is printed, and the exit code is not 0.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Run the command line."""
    import atheris

    with atheris.instrument_imports(include=["bastion", "bundler", "quota", "launch"]):
        from tests.fuzz.doors import DOORS, enter

    name, *options = sys.argv[1:]
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    for number, seed in enumerate(DOORS[name].seeds):
        (folder / str(number)).write_bytes(seed)
    given = ["-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={folder}/crash-", *options]
    atheris.Setup([sys.argv[0], *given, str(folder)], lambda data: enter(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
