"""
The devices of this machine, from the program `probe`: started if there may be some, read without
waiting, killed when it falls silent, and started again later.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bastion.agent.machine.driver_program import answer_of
from bastion.agent.usage.port import DeviceProcess, Devices
from bastion.agent.usage.probe import MISSING, Row, rows
from bastion.errors import SpecError
from bastion.own_program import own_program
from bastion.records.reports.usage import MAX_DEVICES, DeviceUse

DEVICE_FILE = "BASTION_DEVICE_FILE"
"""The agent's variable for a file that replaces its devices, with `{machine}` in the name."""
PERIOD_S = 10.0
"""Between two samples."""
_SILENT_S = 60.0
"""Longest time without a line: without persistence mode, eight GPUs are started first."""
_AGAIN_S = 600.0
"""Pause before a probe that failed, or fell silent, is started again."""
_LINE_BYTES = 1 << 20
"""A longer line is not an answer of a probe."""
_SIGNS = ("/dev/nvidiactl", "/dev/accel0", "/dev/vfio/0", "/dev/dxg")
"""Files of drivers; without one of them no probe is started. Source: NVIDIA's driver, libtpu."""


def may_have_devices() -> bool:
    """Whether this machine may have devices that report their use."""
    return any(Path(sign).exists() for sign in _SIGNS)


def device_file(environ: Mapping[str, str], machine: str) -> str:
    """Return the file that replaces the devices of `machine`, or empty."""
    return environ.get(DEVICE_FILE, "").replace("{machine}", machine)


class DeviceProbe:
    """
    The devices, as their probe last reported them.

    Args:
        file: Replaces devices, in tests and demos; empty: the machine's own devices are queried.
        period_s: Seconds between two lines of the probe.
    """

    def __init__(self, *, file: str = "", period_s: float = PERIOD_S) -> None:
        self._command = _probe(f"{period_s:g}", file)
        self._program: subprocess.Popen[bytes] | None = None
        self._fresh_s = 2.5 * period_s
        self._start_at = 0.0
        self._line_at = 0.0
        self._rest = b""
        self._last = Devices()
        self.is_over = not file and not may_have_devices()
        """Whether there is nothing to query on this machine."""

    def look(self, now: float) -> Devices:
        """Return the recent report; nothing if the probe is silent, failed or just started."""
        if self.is_over:
            return Devices()
        if self._program is None:
            self._start(now)
            return Devices()
        self._read(now)
        code = self._program.poll()
        if code is not None:
            self._program = None
            self.is_over = code == MISSING
            self._start_at = now + _AGAIN_S
            return Devices()
        if now - self._line_at > _SILENT_S:
            self._program.kill()  # reaped by a later look: a broken driver may hold it forever
        return self._last if now - self._line_at <= self._fresh_s else Devices()

    def close(self) -> None:
        """End the probe, without waiting for a driver that blocks its end."""
        if self._program is not None:
            self._program.kill()
            with suppress(subprocess.TimeoutExpired):
                self._program.wait(1.0)
            for pipe in (self._program.stdin, self._program.stdout):
                if pipe is not None:
                    pipe.close()
            self._program = None

    def _start(self, now: float) -> None:
        if now < self._start_at:
            return
        self._start_at = now + _AGAIN_S
        self._line_at, self._rest, self._last = now, b"", Devices()
        with suppress(OSError):
            self._program = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert self._program.stdout is not None
            os.set_blocking(self._program.stdout.fileno(), False)

    def _read(self, now: float) -> None:
        assert self._program is not None
        assert self._program.stdout is not None
        with suppress(BlockingIOError):
            while data := os.read(self._program.stdout.fileno(), 1 << 16):
                self._rest = (self._rest + data)[-_LINE_BYTES:]
        *lines, self._rest = self._rest.split(b"\n")
        if lines:
            self._line_at = now
            self._last = devices_of(lines[-1])


def look_once(file: str = "") -> Devices:
    """Return the devices after one look, which may take as long as their driver needs to start."""
    if not file and not may_have_devices():
        return Devices()
    try:
        done = answer_of(_probe("1", file), timeout_s=_SILENT_S)
    except (OSError, subprocess.TimeoutExpired):
        return Devices()
    lines = done.stdout.splitlines()
    return devices_of(lines[0]) if lines else Devices()


def devices_of(line: bytes) -> Devices:
    """Return the devices in a line of the probe; leaves out malformed ones."""
    each: list[DeviceUse] = []
    processes: list[DeviceProcess] = []
    for row in rows(line):
        with suppress(SpecError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            each.append(_device(row))
            told = row.get("processes") or ()
            processes += [_process(each[-1].index, one) for one in told]
    return Devices(each=tuple(each[:MAX_DEVICES]), processes=tuple(processes))


def _device(row: Row) -> DeviceUse:
    used = row.get("used")
    return DeviceUse(
        index=int(row["index"]),
        used=None if used is None else float(used),
        memory_bytes=int(row.get("memory", 0)),
        memory_total_bytes=int(row.get("total", 0)),
    )


def _process(device: int, said: Mapping[str, object]) -> DeviceProcess:
    return DeviceProcess(
        pid=int(str(said["pid"])),
        device=device,
        memory_bytes=int(str(said.get("memory", 0))),
        name=str(said.get("name", "")),
        user=str(said.get("user", "")),
        mark=str(said.get("mark", "")),
    )


def _probe(period: str, file: str) -> list[str]:
    return own_program("bastion.agent.usage.probe", period, *([file] if file else []))
