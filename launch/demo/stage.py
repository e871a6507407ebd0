"""
The stage of the demo: a folder as the bucket, the two files of an admin, and a bastion.

The bastion is a separate process, started as a user would start it. Everything that is started here
is stopped here: the bastion by its process, the machines by their provider.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from bastion.clock import Clock
from bastion.errors import BastionError
from bastion.own_program import own_program
from bastion.records.keys import layout
from launch.demo.devices import MadeDevices

QUOTA = """\
[toml-schema]
version = "1"

[total_resources]
h100 = 16

[project_membership]
vision = ["ada"]
language = ["lin"]

[project_resources.vision]
h100 = 0.5
[project_resources.language]
h100 = 0.5

[scheduler]
min_runtime_s = 3      # a borrower runs this long before it can be preempted
grace_s = 10           # from the notice to the kill
max_grace_s = 10
"""
CONFIG = """\
[pools.laptop]
provider = "local"
resources = { h100 = 8, cpu = 16 }   # declared, not real: works on any machine
count = 2
price = 55.04                        # per hour of one machine, so that use has a cost
idle_warning = "60s"                 # report jobs whose devices idle for longer
"""
STOP_S = 20.0


class StageError(BastionError):
    """The demo cannot continue; the message says why."""


class Stage:
    """
    The place of the demo.

    Args:
        folder: A new or empty folder, for everything that the demo writes.
        clock: For waiting.

    Raises:
        StageError: The folder is not empty.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        if folder.exists() and any(folder.iterdir()):
            raise StageError(f"{folder} is not empty", hint="name a new folder, or omit --root")
        self.folder = folder
        self._clock = clock
        self.bucket = folder / "bucket"
        self.machines = folder / "machines"
        self.url = self.bucket.resolve().as_uri()
        self.devices = MadeDevices(folder.resolve() / "devices")

    @property
    def log(self) -> Path:
        """The file with the output of the bastion's process."""
        return self.folder / "bastion.log"

    def furnish(self) -> None:
        """Write the admin's files."""
        for name, text in (
            (layout.QUOTA, QUOTA),
            (layout.CONFIG, CONFIG),
        ):
            path = self.bucket / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    @contextmanager
    def bastion(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run a bastion for the bucket; it and its machines are stopped at the end."""
        words = ["serve", f"--root={self.url}", f"--machines_dir={self.machines}", "--name=demo"]
        process = self._started(words, self.log)
        try:
            yield process
        finally:
            _stop(process)
            self._stop_machines()

    @contextmanager
    def page(self) -> Iterator[str]:
        """
        Serve pages about the bucket and yield their address; stop at the end.

        Raises:
            StageError: The server does not start.
        """
        log = self.folder / "web.log"
        process = self._started(["web", f"--root={self.url}", "--port=0"], log)
        try:
            yield self._address_in(log, process)
        finally:
            _stop(process)

    def _address_in(self, log: Path, process: subprocess.Popen[bytes]) -> str:
        until = self._clock.monotonic() + STOP_S
        while (found := re.search(r"http://[^;\s]+", log.read_text())) is None:
            if process.poll() is not None or self._clock.monotonic() > until:
                raise StageError(f"the page does not start: {log.read_text().strip()}")
            self._clock.sleep(0.1)
        return found[0]

    def _started(self, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process of our own command, with its output in `log`."""
        with log.open("wb") as file:
            return subprocess.Popen(
                own_program("bastion.command", *words),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=self._environment(),
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        """Return an environment in which the process finds this Bastion, installed or not."""
        here = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
        return dict(os.environ, PYTHONPATH=path, BASTION_DEVICE_FILE=self.devices.setting)

    def _stop_machines(self) -> None:
        from bastion.provider.open import open_provider
        from bastion.service.config.pool_config import parse_config

        buckets = [place.name for place in self.machines.glob("*")]
        pools = parse_config(CONFIG).pools.values()
        for bucket, pool in product(buckets, pools):
            provider = open_provider(
                pool, root_url=self.url, bucket=bucket, machines_dir=self.machines
            )
            for machine in provider.list():
                provider.delete(machine.name)
            until = self._clock.monotonic() + STOP_S
            while any(machine.state != "gone" for machine in provider.list()):
                if self._clock.monotonic() > until:
                    raise StageError(f"machines in {self.machines} do not stop")
                self._clock.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
