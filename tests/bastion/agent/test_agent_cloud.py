"""The agent of a cloud machine: notices, bad devices and the dead man's switch."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bastion.agent.begin.begin import Begun
from bastion.agent.begin.devices import DeviceReport
from bastion.agent.cloud.metadata import metadata_of
from bastion.agent.cloud.watch import CloudWatch
from bastion.agent.errands import Errands
from bastion.agent.host.context import Surroundings
from bastion.agent.keeper.fake import Reaction, Script
from bastion.agent.settings import AgentSettings
from bastion.clock import Clock
from bastion.lane import InlineLane
from bastion.records.reports.facts import BootStep, Health, Hello, Interruption
from bastion.store.memory import Fault
from quota.amounts import Amounts
from tests.rigs.agent import MACHINE, Rig, job, start
from tests.rigs.limits import PATIENCE_S, killed
from tests.servers.metadata import MetadataServer, metadata_server

FOREVER = Script(runs_s=float("inf"), on_notice=Reaction(after_s=1.0, code=3, signal=None))
PREEMPTED = "/computeMetadata/v1/instance/preempted"


@pytest.fixture
def server() -> Iterator[MetadataServer]:
    with metadata_server() as server:
        server.says[PREEMPTED] = "FALSE"
        yield server


def rig_of(server: MetadataServer, *, is_out: list[bool] | None = None) -> Rig:
    """Return a machine of Google's; while `is_out` holds True, its store does not answer."""

    def fault(_operation: str, _key: str) -> Fault | None:
        return Fault.BEFORE if is_out and is_out[0] else None

    environ = {
        "GCE_METADATA_HOST": server.host,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"http://{server.host}",
    }
    settings = AgentSettings(
        machine=MACHINE,
        resources=Amounts({"cpu": 8}),
        cloud="gce",
        orphan_timeout_s=3600.0,
        environ=environ,
    )
    metadata = metadata_of("gce", environ)
    return Rig(lambda _: FOREVER, settings=settings, metadata=metadata, faults=fault)


def test_a_preempted_machine_gives_its_jobs_their_notice_at_once(server: MetadataServer) -> None:
    """The bastion is told, the processes get the preemption notice, and nothing new starts."""
    rig = rig_of(server)
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    server.says[PREEMPTED] = "TRUE"
    rig.pass_s(10, step_s=0.5)
    assert Interruption(in_s=30.0, text="the spot VM is preempted") in rig.bucket.facts()
    end = rig.bucket.end()
    assert end is not None
    assert (end.kind, end.notice, end.codes) == ("exited", "preempt", (3,))
    rig.bucket.instruct(replace(start(), nonce="n2", attempt=2))
    rig.pass_s(10, step_s=0.5)
    assert len(rig.keeper_home.executed) == 1


def test_an_interruption_is_told_once(server: MetadataServer) -> None:
    """The metadata server repeats it; the bastion hears it once."""
    server.says[PREEMPTED] = "TRUE"
    rig = rig_of(server)
    rig.pass_s(25, step_s=1.0)
    assert sum(isinstance(fact, Interruption) for fact in rig.bucket.facts()) == 1


def test_only_an_outage_of_the_whole_time_makes_an_orphan(server: MetadataServer) -> None:
    """A machine that reads its bucket lives on; one that could not for an hour deletes itself."""
    prefix = "/computeMetadata/v1/"
    server.says |= {
        f"{prefix}instance/service-accounts/default/token": '{"access_token": "t"}',
        f"{prefix}project/project-id": "p",
        f"{prefix}instance/zone": "projects/1/zones/z",
        f"{prefix}instance/name": "vm",
    }
    is_out = [False]
    rig = rig_of(server, is_out=is_out)
    rig.pass_s(4000, step_s=40.0)
    is_out[0] = True
    rig.pass_s(3500, step_s=50.0)
    assert server.deleted == []
    rig.pass_s(200, step_s=50.0)
    assert server.deleted == [("/compute/v1/projects/p/zones/z/instances/vm", "Bearer t")]


def test_a_greeting_tells_steps_and_bad_devices() -> None:
    """One bell has the greeting with the steps, once, and the bad devices."""
    steps = (BootStep(name="installed", seconds=2.5),)
    report = DeviceReport(bad={"h100": (3,)}, text="h100 3: XID 79, it has fallen off the bus")
    rig = Rig(begun=Begun(steps=steps, report=report))
    rig.pass_s(100, step_s=5.0)
    first, health, again = rig.bucket.facts()
    assert isinstance(first, Hello) and first.steps == steps
    assert health == Health(bad_devices={"h100": (3,)}, text=report.text)
    assert isinstance(again, Hello) and again.steps == ()


def test_the_time_of_a_notice_is_held_against_the_clock_of_the_store(
    server: MetadataServer,
) -> None:
    """A machine with a fast clock would otherwise give its jobs no grace of the two minutes."""
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
    said = {"action": "terminate", "time": "2026-11-30T12:02:00Z"}
    server.says["/latest/meta-data/spot/instance-action"] = json.dumps(said)
    metadata = metadata_of("ec2", {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{server.host}/"})
    assert metadata is not None
    rung: list[Interruption] = []
    errands = Errands(InlineLane(), InlineLane(), retry_s=1.0, say=lambda _: None)
    around = SimpleNamespace(
        settings=AgentSettings(machine=MACHINE, cloud="ec2"),
        errands=errands,
        bells=SimpleNamespace(ring=rung.append, store_time=(noon, 100.0)),
        say=lambda _: None,
    )
    clock = SimpleNamespace(wall=lambda: noon + 130.0)
    watch = CloudWatch(metadata, cast("Surroundings", around), cast("Clock", clock))
    watch.turn(110.0, reached_at=110.0, hosts={})
    errands.collect(110.0)
    assert [fact.in_s for fact in rung] == [110.0]


def test_the_notice_of_slurm_bears_the_time_of_its_own_machine(tmp_path: Path) -> None:
    """Its batch script has written it, whatever the clock of the store says."""
    noon = 1_800_000_000.0
    (tmp_path / "notice").write_text(f"{noon + 90:.0f}")
    metadata = metadata_of("slurm", {"BASTION_BOOT_DIR": str(tmp_path)})
    assert metadata is not None
    rung: list[Interruption] = []
    errands = Errands(InlineLane(), InlineLane(), retry_s=1.0, say=lambda _: None)
    around = SimpleNamespace(
        settings=AgentSettings(machine=MACHINE, cloud="slurm"),
        errands=errands,
        bells=SimpleNamespace(ring=rung.append, store_time=(noon - 1000.0, 100.0)),
        say=lambda _: None,
    )
    clock = SimpleNamespace(wall=lambda: noon)
    watch = CloudWatch(metadata, cast("Surroundings", around), cast("Clock", clock))
    watch.turn(110.0, reached_at=110.0, hosts={})
    errands.collect(110.0)
    assert [fact.in_s for fact in rung] == [90.0]


def test_a_pod_that_is_to_end_ends_once_it_is_not_needed(tmp_path: Path) -> None:
    """A drain of its node waits no longer than its jobs and the agent's last reports take."""
    line = 'trap "exit 0" USR2; : >ready; while :; do sleep 0.01; done'
    script = subprocess.Popen(["/bin/sh", "-c", line], cwd=tmp_path)
    try:
        while not (tmp_path / "ready").exists():
            assert script.poll() is None
            time.sleep(0.01)
        environ = {"BASTION_BOOT_DIR": str(tmp_path), "BASTION_POD_SCRIPT": str(script.pid)}
        metadata = metadata_of("kubernetes", environ)
        assert metadata is not None
        bells = SimpleNamespace(ring=lambda _: None, store_time=None, is_silent=False)
        errands = Errands(InlineLane(), InlineLane(), retry_s=1.0, say=lambda _: None)
        around = SimpleNamespace(
            settings=AgentSettings(machine=MACHINE, cloud="kubernetes", environ=environ),
            errands=errands,
            bells=bells,
            say=lambda _: None,
        )
        clock = SimpleNamespace(wall=lambda: 0.0)
        watch = CloudWatch(metadata, cast("Surroundings", around), cast("Clock", clock))

        def pass_to(now: float) -> None:
            watch.turn(now, reached_at=now, hosts={})
            errands.collect(now)

        def seen() -> tuple[bool, bool]:
            return watch.is_taken, script.poll() is None

        bells.is_silent = True
        pass_to(100.0)
        pass_to(200.0)
        assert seen() == (False, True)
        (tmp_path / "notice").write_text("120")
        pass_to(300.0)
        bells.is_silent = False
        pass_to(320.0)
        bells.is_silent = True
        pass_to(340.0)
        pass_to(345.0)
        assert seen() == (True, True)
        pass_to(350.0)
        assert script.wait(PATIENCE_S) == 0
    finally:
        killed(script)
