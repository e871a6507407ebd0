"""
How long bundling takes, and how much it sends, on a tree of many files.

    python -m benchmarks.bundle [--files 20000] [--size_mb 1000] [--runs 3] [--folder /tmp/...]

Every run has its own store and cache. The store is a folder on the same disk, so no network is
measured.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.table import show
from bundler.bundle.fetch import fetch
from bundler.bundle.upload import Bundle, bundle
from bundler.code import LocalDir
from bundler.copies.checkout import checkout
from bundler.size import show_size
from tests.rigs.blobs import FolderBlobs


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--size_mb", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    flags = parser.parse_args()
    print(f"{flags.files} files, {flags.size_mb} MB, medians of {flags.runs} runs")
    with tempfile.TemporaryDirectory(dir=flags.folder) as work:
        show(_rows(Path(work), flags))


def _rows(work: Path, flags: argparse.Namespace) -> list[dict[str, object]]:
    top = work / "tree"
    _grow(top, files=flags.files, size_bytes=flags.size_mb * 10**6)
    time.sleep(3)  # A cache trusts only files that have not changed recently.
    stores = [FolderBlobs(_folder(work / f"store{run}")) for run in range(flags.runs)]

    def once(run: int) -> Bundle:
        code = LocalDir(str(top), max_size="1TiB")
        return bundle(code, stores[run], start=top, caches=work / f"caches{run}")

    def changed(run: int) -> Bundle:
        with (top / "d0/f0.py").open("a") as file:
            file.write(f"# line {run}\n")
        return once(run)

    rows = [_measure(name, work_on, flags.runs) for name, work_on in (
        ("first bundle", once), ("unchanged", once), ("one line changed", changed),
    )]  # fmt: skip
    digest = once(0).digest
    trees: dict[int, Path] = {}

    def fetched(run: int) -> None:
        trees[run] = fetch(digest, stores[0], work / f"cache{run}")

    def copied(run: int) -> None:
        checkout(trees[run], work / f"job{run}")

    rows.append(_measure("fetch", fetched, flags.runs))
    rows.append(_measure("fetch again", fetched, flags.runs))
    rows.append(_measure("working directory of a job", copied, flags.runs))
    return rows


def _measure(name: str, work: Callable[[int], Bundle | None], runs: int) -> dict[str, object]:
    times, sent = [], []
    for run in range(runs):
        began = time.perf_counter()
        made = work(run)
        times.append(time.perf_counter() - began)
        sent.append(made.sent_bytes if made else 0)
    seconds = round(statistics.median(times), 2)
    return {"what": name, "median_s": seconds, "sent": show_size(int(statistics.median(sent)))}


def _grow(top: Path, *, files: int, size_bytes: int) -> None:
    """Write files, half text-like, half incompressible, in folders of 100: always the same tree."""
    source = random.Random(0)
    words = [f"{source.getrandbits(40):x} " for _ in range(2000)]
    each = size_bytes // files
    for at in range(files):
        path = top / f"d{at // 100}" / f"f{at}.py"
        if at % 100 == 0:
            path.parent.mkdir(parents=True)
        if at % 2:
            path.write_bytes(source.randbytes(each))
        else:
            path.write_text("".join(source.choices(words, k=each // 10))[:each])
    (top / ".gitignore").write_text("*.ckpt\nbuild/\n/data/\n*.log\n.venv/\n!keep.log\n")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


if __name__ == "__main__":
    main()
