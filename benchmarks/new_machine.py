"""
Seconds from the start of a new machine's script to its greeting, by step.

    python -m benchmarks.new_machine

The script is the one that a provider passes; here it runs on a bucket that is a folder. `with
packages` is an image whose Python has what an agent needs. `from a cache` is one whose Python does
not: uv creates an environment for it from packages that an earlier machine left in uv's cache. That
earlier run is the row `first`, which downloads from PyPI. Not included are the boot of a cloud
machine, and the turn of the bastion that receives the greeting, at most half a second on a folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from bastion.machine import Pool
from bastion.provider.boot import Boot, own_wheel, startup_script
from bastion.records.code.wheel import ensure_wheel
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell, Hello
from bastion.store.folder.local import LocalStore
from benchmarks.table import show
from quota import Amounts

LONGEST_S = 300.0
POOL = Pool(name="gpu", provider="gce", resources=Amounts({"cpu": 2}), max_machines=9)


def main() -> None:
    """Start machines, and print how long each step took."""
    with TemporaryDirectory() as folder:
        rows = measured(Path(folder))
    show(rows)


def measured(folder: Path) -> list[dict[str, object]]:
    """Return the rows of the table."""
    store = LocalStore(folder / "root", makes_root=True)
    wheel = own_wheel()
    ensure_wheel(store, wheel.digest, wheel.name, wheel.data)
    own, bare = Path(sys.executable).parent, folder / "bin"
    bare.mkdir()
    uv = shutil.which("uv", path=f"{own}:{os.environ['PATH']}")
    cases = [("with packages", str(own)), ("with packages", str(own))]
    if uv is not None:
        (bare / "uv").symlink_to(uv)
        cases += [("first", str(bare)), ("from a cache", str(bare)), ("from a cache", str(bare))]
    return [
        begun(store, folder, number=number, case=case, path=path)
        for number, (case, path) in enumerate(cases)
    ]


def begun(
    store: LocalStore, folder: Path, *, number: int, case: str, path: str
) -> dict[str, object]:
    """Start one machine, wait for its greeting, and end it."""
    name = f"gpu-{number}-0"
    boot = Boot.here(f"file://{folder}/root", "0123456789")
    script = startup_script(POOL, boot, machine=f"printf %s {name}")
    home = folder / name
    env = {
        "PATH": f"{path}:/usr/bin:/bin",
        "HOME": str(folder),
        "BASTION_BOOT_DIR": str(home),
        "GCE_METADATA_HOST": "127.0.0.1:9",
        "SSL_CERT_FILE": os.environ.get("SSL_CERT_FILE", ""),
        "UV_CACHE_DIR": str(folder / "cache"),
    }
    env = {name: text for name, text in env.items() if text}
    began = time.monotonic()
    subprocess.run(["sh", "-c", script], env=env, check=True)
    try:
        hello = _greeting(store, name, began + LONGEST_S)
        took = time.monotonic() - began
    finally:
        _end(home)
    steps = {step.name: round(step.seconds, 2) for step in hello.steps}
    rest = took - sum(steps.values())
    return {"machine": case, **steps, "the agent": rest, "to the greeting": took}


def _greeting(store: LocalStore, name: str, until: float) -> Hello:
    """Return the first greeting of a machine; its hello is the first fact of its first bell."""
    key = layout.bell(name, 1, 0)
    while time.monotonic() < until:
        for entry in store.list(key.rpartition("/")[0] + "/"):
            found = store.read(entry.key)
            assert found is not None
            bell = decode(Bell, found.data, key=entry.key)
            for fact in bell.facts:
                if isinstance(fact, Hello):
                    return fact
        time.sleep(0.01)
    raise SystemExit(f"{name} did not greet within {LONGEST_S:g} s")


def _end(home: Path) -> None:
    """Kill what the script started."""
    mark = f"BASTION_BOOT_DIR={home}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        with suppress(OSError):
            if f"{home}/".encode() in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


if __name__ == "__main__":
    main()
