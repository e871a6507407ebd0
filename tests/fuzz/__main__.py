"""
One door under a fuzzer that is guided by coverage.

    python -m tests.fuzz requests -runs=100000 -max_total_time=60

What stands after the door's name is libFuzzer's. An input that crashes a door, takes longer than
ten seconds or 2 GiB is printed, and the exit code is not 0.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Run it as the command line says."""
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
