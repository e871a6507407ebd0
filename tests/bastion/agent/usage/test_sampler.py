"""Real samples: from a driver library, a file of devices, and processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bastion.agent.usage.devices import DeviceProbe, devices_of, may_have_devices
from bastion.agent.usage.port import Devices, Group
from bastion.agent.usage.process_groups import ProcessGroups
from bastion.agent.usage.sampler import MachineSampler

FAKE_NVML = Path(__file__).parents[1] / "begin" / "fake_nvml"
DEADLINE_S = 20.0


def until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def probe_of_nvml(fault: str, *, seconds: float) -> subprocess.CompletedProcess[str]:
    """Return the output of the probe with a driver library that has two GPUs, and its end."""
    env = {**os.environ, "PYTHONPATH": f"{FAKE_NVML}:{Path.cwd()}", "FAULT": fault}
    return subprocess.run(
        [sys.executable, "-m", "bastion.agent.usage.probe", "60"],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def test_gpus_tell_their_use_memory_and_processes() -> None:
    """One line has each GPU with its use, memory and processes; the end of stdin ends it."""
    said = probe_of_nvml("", seconds=DEADLINE_S)
    assert said.returncode == 0
    found = devices_of(said.stdout.encode().strip())
    assert [(each.index, each.used) for each in found.each] == [(0, 0.4), (1, 0.41)]
    assert [each.memory_bytes >> 30 for each in found.each] == [1, 2]
    assert {each.device for each in found.processes} == {0, 1}
    assert all(each.name.startswith("python") for each in found.processes)
    assert found.processes[0].user


def test_what_a_gpu_does_not_tell_is_unknown() -> None:
    """A partitioned device has no use of its own; the other one has."""
    said = probe_of_nvml("mig", seconds=DEADLINE_S)
    assert [each.used for each in devices_of(said.stdout.encode().strip()).each] == [0.4, None]


def test_a_driver_that_is_not_loaded_is_nothing_to_ask() -> None:
    """The probe ends with the code that says so, and is not restarted repeatedly."""
    assert probe_of_nvml("driver", seconds=DEADLINE_S).returncode == 97


def test_a_probe_that_hangs_is_killed_and_costs_its_samples_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look never waits: after a minute of silence the program is killed, and retried later."""
    monkeypatch.setenv("PYTHONPATH", f"{FAKE_NVML}:{Path.cwd()}")
    monkeypatch.setenv("FAULT", "hangs")
    with probe(file="") as hung:
        assert hung.look(0.0) == Devices()
        program = hung._program
        assert program is not None
        assert hung.look(59.0) == Devices()
        assert program.poll() is None
        assert hung.look(61.0) == Devices()
        program.wait(DEADLINE_S)
        assert hung.look(70.0) == Devices()
        assert hung.look(80.0) == Devices()
        assert hung._program is None
        hung.look(700.0)
        assert hung._program is not None


@contextmanager
def probe(file: str) -> Iterator[DeviceProbe]:
    made = DeviceProbe(file=file, period_s=0.05)
    made.is_over = False
    try:
        yield made
    finally:
        made.close()


def test_a_file_stands_for_devices(tmp_path: Path) -> None:
    """A test or a demo writes the use of its devices; the next line of the probe has it."""
    file = tmp_path / "devices.json"
    file.write_text(json.dumps([{"index": 0, "used": 0.5}, {"index": 1}, "nonsense"]))
    with probe(str(file)) as found:
        until(lambda: found.look(time.monotonic()).each)
        assert [each.used for each in found.look(time.monotonic()).each] == [0.5, None]
        file.write_text("spoilt")
        until(lambda: not found.look(time.monotonic()).each)


def test_a_line_of_nonsense_has_no_devices() -> None:
    """Malformed entries are left out; nothing raises."""
    for line in (b"", b"{}", b"[1]", b'[{"index":-1}]', b'[{"index":"x"}]', b'[{"index":1e999}]'):
        assert devices_of(line) == Devices()
    (only,) = devices_of(b'[{"index":3,"used":7},{"index":4,"processes":[{"pid":"x"}]}]').each[:1]
    assert (only.index, only.used) == (3, 1.0)


def test_no_probe_is_started_where_there_can_be_no_device() -> None:
    """A machine without driver files runs no program for devices that it does not have."""
    found = DeviceProbe()
    found.look(0.0)
    assert (found._program is None) == (not may_have_devices())
    found.close()


def test_a_group_is_a_process_with_its_descendants() -> None:
    """CPU time and memory of a child's child count; a rate covers the time since the last look."""
    code = "import subprocess,sys; subprocess.run([sys.executable,'-c',sys.argv[1]])"
    burn = "x=bytearray(64<<20); print(flush=True)\nwhile True: pass"
    main = subprocess.Popen([sys.executable, "-c", code, burn], stdout=subprocess.PIPE)
    assert main.stdout is not None
    try:
        assert main.stdout.readline()
        groups = ProcessGroups()
        group = {"k": Group(pids=(main.pid,), started_at=time.monotonic() - 1.0)}
        groups.look(group, time.monotonic())
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 0.3)
        (use,) = groups.look(group, time.monotonic()).values()
        assert use.processes == 2
        assert use.memory_bytes > 64 << 20
        assert 0.05 < use.cores < 1.5
    finally:
        for pid in Path(f"/proc/{main.pid}/task/{main.pid}/children").read_text().split():
            os.kill(int(pid), 9)
        main.kill()
        main.wait(DEADLINE_S)
        main.stdout.close()


def test_a_group_that_has_ended_uses_nothing() -> None:
    """A pid that is gone raises nothing."""
    gone = subprocess.Popen(["true"])
    gone.wait(DEADLINE_S)
    (use,) = ProcessGroups().look({"k": Group(pids=(gone.pid,), started_at=0.0)}, 1.0).values()
    assert (use.cores, use.memory_bytes) == (0.0, 0)


def test_the_machine_itself_is_sampled() -> None:
    """Cores and memory in use on the whole machine are sampled; the first look has no rate."""
    sampler = MachineSampler(DeviceProbe())
    first = sampler.sample({}, 0.0)
    assert first.cores == 0.0
    assert first.memory_bytes > 0
    assert sampler.sample({}, 1e-3).cores >= 0.0
    sampler.close()
