"""`python -m benchmarks`: lists the benchmarks and how to run each."""

from __future__ import annotations

import ast
from pathlib import Path

_SHARED = {"__init__", "__main__", "guard", "shapes", "slurm", "table"}


def main() -> None:
    """Print each benchmark's command and the first line of its docstring."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in _SHARED:
            about = ast.get_docstring(ast.parse(path.read_text())) or ""
            print(f"  python -m benchmarks.{path.stem:<12} {about.partition(chr(10))[0]}")


if __name__ == "__main__":
    main()
