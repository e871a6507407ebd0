"""What TPUs report: through a replacement for `tpu-info`, and through the package itself."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bastion.agent.usage.devices import devices_of
from bastion.agent.usage.port import Devices
from bastion.agent.usage.probe import MISSING, _chips

FAKE = Path(__file__).parent / "fake_tpu"


def probe(fault: str) -> tuple[int, Devices]:
    """Return how the probe ends on a machine without GPUs, and its output."""
    path = os.pathsep.join(map(str, (FAKE, Path.cwd())))
    done = subprocess.run(
        [sys.executable, "-m", "bastion.agent.usage.probe", "60"],
        env={**os.environ, "PYTHONPATH": path, "FAULT": fault},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
    )
    return done.returncode, devices_of(done.stdout.encode().strip())


def test_chips_tell_their_use_by_the_cores_that_the_quota_counts() -> None:
    """Both cores of a v4 chip have its use and half of its memory; its process is named."""
    code, found = probe("")
    assert code == 0
    assert [each.index for each in found.each] == list(range(8))
    assert [each.used for each in found.each] == [0, 0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3]
    assert found.each[4].memory_bytes == 1 << 30
    assert found.each[4].memory_total_bytes == 16 << 30
    assert {each.device for each in found.processes} == {0, 1}
    assert all(each.name.startswith("python") for each in found.processes)


def test_chips_that_nothing_holds_are_idle_and_silent_ones_unknown() -> None:
    """A chip without a program has use 0; with a program that reports nothing, it is unknown."""
    assert {each.used for each in probe("free")[1].each} == {0.0}
    assert {each.used for each in probe("held")[1].each} == {None}


@pytest.mark.parametrize("fault", ["none", "mixed"])
def test_a_machine_without_chips_is_nothing_to_ask(fault: str) -> None:
    """The probe ends with the code that says so, and is not restarted repeatedly."""
    assert probe(fault) == (MISSING, Devices())


def test_the_package_itself_is_asked_as_it_wants_to_be() -> None:
    """`tpu-info` reads the metrics of a server that speaks libtpu's protocol."""
    import grpc
    from tpu_info import device, metrics
    from tpu_info.proto import tpu_metric_service_pb2 as messages
    from tpu_info.proto import tpu_metric_service_pb2_grpc as service

    class Libtpu(service.RuntimeMetricServiceServicer):  # type: ignore[misc]
        def GetRuntimeMetric(self, request: object, context: object) -> object:
            name = str(request.metric_name)  # type: ignore[attr-defined]
            found = messages.MetricResponse()
            for chip in range(4):
                each = found.metric.metrics.add()
                each.attribute.value.int_attr = chip
                if name == metrics.MetricName.DUTY_CYCLE_PCT.value:
                    each.gauge.as_double = 25.0 * chip
                else:
                    each.gauge.as_int = (chip + 1) << 30
            return found

    server = grpc.server(ThreadPoolExecutor(2))
    service.add_RuntimeMetricServiceServicer_to_server(Libtpu(), server)
    port = server.add_secure_port("localhost:0", grpc.local_server_credentials())
    server.start()
    try:
        rows = _chips(device, metrics, device.TpuChip.V5E, 4, address=f"localhost:{port}")
    finally:
        server.stop(None)
    assert [row["used"] for row in rows] == [0.0, 0.25, 0.5, 0.75]
    assert [row["memory"] >> 30 for row in rows] == [1, 2, 3, 4]
    assert {row["total"] >> 30 for row in rows} == {16}
