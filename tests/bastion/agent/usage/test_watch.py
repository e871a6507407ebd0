"""How an agent handles its samples, on a virtual clock with a scripted keeper and sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bastion.agent.keeper.fake import Script
from bastion.agent.keeper.port import KeeperGoneError
from bastion.agent.settings import AgentSettings, Tempo
from bastion.agent.usage.port import DeviceProcess
from bastion.errors import BastionError
from bastion.logs.pace import CLOUD
from bastion.records.keys import layout
from bastion.records.reports.facts import Health, Idle
from bastion.records.reports.usage import MachineUse, UsageSegment, machine_use, unpacked
from bastion.store.memory import Fault, Operation
from bastion.utilisation import Utilisation
from quota.amounts import Amounts
from tests.bastion.agent.usage.fake_sampler import FakeSampler
from tests.rigs.agent import MACHINE, OF, Rig, job, start, stop

ON_TWO = {"devices": {"h100": (0, 1)}}
SETTINGS = AgentSettings(
    machine=MACHINE,
    resources=Amounts({"h100": 8}),
    home="/home",
    tempo=Tempo(busy_s=1.0, idle_s=2.0, retry_s=5.0, logs=CLOUD),
)
PREFIX = layout.usage(OF.project, OF.job, OF.attempt, replica=OF.replica, host=OF.host)


def machine(
    sampler: FakeSampler,
    runs_s: float = float("inf"),
    faults: Callable[[Operation, str], Fault | None] = lambda _operation, _key: None,
    **said: Any,
) -> Rig:
    """Return a machine on which one host runs on two devices."""
    rig = Rig(lambda _: Script(runs_s=runs_s), settings=SETTINGS, sampler=sampler, faults=faults)
    rig.bucket.spec(job())
    rig.bucket.instruct(start(**{**ON_TWO, **said}))
    return rig


def stored(rig: Rig, key: str) -> bytes:
    found = rig.memory.read(key)
    assert found is not None
    return found.data


def utilisation(rig: Rig) -> Utilisation | None:
    """Return what the end of the host says about its use."""
    end = rig.bucket.end()
    assert end is not None
    return end.utilisation


def segments(rig: Rig) -> list[UsageSegment]:
    return [unpacked(stored(rig, each.key), key=each.key) for each in rig.memory.list(PREFIX)]


def now(rig: Rig) -> MachineUse:
    key = layout.machine_use(MACHINE)
    return machine_use(stored(rig, key), key=key)


def idles(rig: Rig) -> list[str]:
    return [fact.text for fact in rig.bucket.facts() if isinstance(fact, Idle)]


def test_the_end_says_what_was_used() -> None:
    """Mean, median, maximum and idle fraction over both devices; cores and memory of processes."""
    sampler = FakeSampler(0.9, 0.01, 1.0)
    rig = machine(sampler, runs_s=65)
    rig.pass_s(70, step_s=1.0)
    assert utilisation(rig) == Utilisation(
        samples=12, mean=0.455, p50=0.01, max=0.9, idle=0.5, cores=2.0, memory_bytes=3 << 30
    )
    assert rig.bucket.told()[-1] == "drained"


def test_a_short_job_costs_no_look() -> None:
    """A job of some seconds has ended before the first look, and reports no use."""
    sampler = FakeSampler(0.9, 0.9)
    rig = machine(sampler, runs_s=5)
    rig.pass_s(8, step_s=1.0)
    assert (sampler.looks, utilisation(rig)) == (0, None)
    assert rig.memory.list(PREFIX) == ()


def test_segments_hold_every_sample_once_and_are_few() -> None:
    """An hour is in a few objects, longer ones as the run gets longer, without gap or overlap."""
    rig = machine(FakeSampler(0.5, 0.25))
    rig.pass_s(3600, step_s=2.0)
    rig.bucket.instruct(stop())
    rig.pass_s(30, step_s=2.0)
    found = segments(rig)
    assert len(found) <= 20
    at = [each for segment in found for each in segment.at]
    assert 350 <= len(at) <= 365
    assert at == sorted(set(at))
    assert {each for segment in found for each in segment.used["1"]} == {25}
    assert max(entry.size for entry in rig.memory.list(PREFIX)) < 3000


def test_a_killed_agent_loses_at_most_the_samples_in_no_segment() -> None:
    """The next agent continues with the summary, the devices and the next number."""
    sampler = FakeSampler(0.8, 0.8)
    rig = machine(sampler)
    rig.pass_s(130, step_s=1.0)
    before = len(segments(rig))
    rig.restart()
    rig.pass_s(130, step_s=1.0)
    rig.bucket.instruct(stop())
    rig.pass_s(30, step_s=1.0)
    assert len(segments(rig)) > before >= 1
    used = utilisation(rig)
    assert used is not None
    assert used.mean == 0.8
    assert 2 * 18 <= used.samples <= 2 * 26
    assert not list((rig.home_folder / "usage").iterdir())


def test_a_number_that_is_taken_is_passed_over() -> None:
    """What an earlier agent wrote and did not remember stays as it is."""
    rig = machine(FakeSampler(0.5, 0.5))
    rig.memory.create(layout.usage_segment(PREFIX, 0), b"another")
    rig.pass_s(90, step_s=1.0)
    keys = [entry.key for entry in rig.memory.list(PREFIX)]
    assert keys == [layout.usage_segment(PREFIX, 0), layout.usage_segment(PREFIX, 1)]
    assert stored(rig, keys[0]) == b"another"


def test_a_sampler_that_fails_costs_its_samples_alone() -> None:
    """The job runs and ends as usual; the agent reports the failure once."""
    sampler = FakeSampler(0.5)
    sampler.error = BastionError("the driver is gone")
    rig = machine(sampler, runs_s=100)
    rig.pass_s(110, step_s=1.0)
    assert utilisation(rig) is None
    assert rig.bucket.told()[-1] == "drained"
    assert sum("the driver is gone" in line for line in rig.said) == 1


def test_a_keeper_that_does_not_answer_a_look_is_connected_to_again() -> None:
    """A broken connection serves no later look either: the agent opens another one."""
    sampler = FakeSampler(0.5)
    sampler.error = KeeperGoneError("no answer from the keeper")
    rig = machine(sampler, runs_s=100)
    with pytest.raises(KeeperGoneError):
        rig.pass_s(30, step_s=1.0)


def test_a_store_that_is_away_delays_samples_and_no_end() -> None:
    """Samples that cannot be sent do not keep a host from ending; they go with its last logs."""
    away = {"is": False}

    def faults(_operation: Operation, key: str) -> Fault | None:
        return Fault.BEFORE if away["is"] and key.startswith(PREFIX) else None

    rig = machine(FakeSampler(0.5, 0.5), faults=faults)
    rig.pass_s(50, step_s=1.0)
    away["is"] = True
    rig.bucket.instruct(stop())
    rig.pass_s(60, step_s=1.0)
    assert rig.bucket.end() is not None
    assert "ended" in rig.bucket.told()
    away["is"] = False
    rig.pass_s(60, step_s=1.0)
    assert rig.bucket.told()[-1] == "drained"
    assert len(segments(rig)) == 1


def test_the_use_of_the_machine_is_one_object() -> None:
    """It is replaced, once per minute on a cloud, and names the job, its devices and its use."""
    written = []

    def faults(operation: str, key: str) -> None:
        written.extend([operation] if key.startswith(layout.USAGE) else [])

    rig = machine(FakeSampler(0.5, 0.25, 0.0), faults=faults)
    rig.pass_s(605, step_s=2.0)
    use = now(rig)
    assert 9 <= len(written) <= 11
    assert [device.used for device in use.devices] == [0.5, 0.25, 0.0]
    assert [(each.job, each.devices, each.use.cores) for each in use.hosts] == [
        (OF.job, (0, 1), 2.0)
    ]
    assert len(rig.memory.list(layout.USAGE)) == 1


def test_the_object_is_replaced_after_a_restart() -> None:
    """A restarted agent does not know the version that it wrote, and still replaces it."""
    sampler = FakeSampler(0.5, 0.25)
    rig = machine(sampler)
    rig.pass_s(80, step_s=1.0)
    sampler.used = (1.0, 1.0)
    rig.restart()
    rig.pass_s(80, step_s=1.0)
    assert [device.used for device in now(rig).devices] == [1.0, 1.0]


def test_foreign_processes_are_named() -> None:
    """A process on a device without our mark is foreign, whether the device is held or not."""
    sampler = FakeSampler(0.5, 0.25, 0.9)
    ours = "/home:" + "x"
    sampler.processes = (
        DeviceProcess(pid=1, device=0, mark=ours),
        DeviceProcess(pid=7, device=1, name="python3", user="eve", memory_bytes=5),
        DeviceProcess(pid=7, device=2, name="python3", user="eve", memory_bytes=6),
    )
    rig = machine(sampler)
    rig.pass_s(30, step_s=1.0)
    (found,) = now(rig).foreign
    assert (found.pid, found.name, found.user) == (7, "python3", "eve")
    assert (found.devices, found.memory_bytes) == ((1, 2), 11)


def healths(rig: Rig) -> list[Health]:
    return [fact for fact in rig.bucket.facts() if isinstance(fact, Health)]


def test_a_device_that_others_hold_is_told_and_free_again_when_they_end() -> None:
    """The bell names type, index, process and user; another holder is news, and so is none."""
    sampler = FakeSampler(0.5, 0.25, 0.9)
    rig = machine(sampler)
    rig.settings = replace(SETTINGS, respects_foreign=True)
    rig.restart()
    rig.pass_s(30, step_s=1.0)
    assert healths(rig) == [Health()]
    sampler.processes = (
        DeviceProcess(pid=1, device=0, mark="/home:x"),
        DeviceProcess(pid=7, device=2, name="python3", user="eve"),
    )
    rig.pass_s(30, step_s=1.0)
    _, told = healths(rig)
    assert (told.bad_devices, told.unwell) == ({"h100": (2,)}, "")
    assert told.text == (
        "process 7 (python3) of user eve, which is not of this bastion, holds h100 2"
    )
    sampler.processes = (DeviceProcess(pid=8, device=2, user="bob"),)
    rig.pass_s(30, step_s=1.0)
    assert "process 8 (unnamed) of user bob" in healths(rig)[2].text
    sampler.processes = ()
    rig.pass_s(30, step_s=1.0)
    assert healths(rig)[3:] == [Health()]


def test_a_driver_that_falls_silent_frees_no_device() -> None:
    """What others held when devices were last seen is left alone until they are seen again."""
    sampler = FakeSampler(0.5, 0.25)
    sampler.processes = (DeviceProcess(pid=7, device=1, user="eve"),)
    rig = machine(sampler)
    rig.settings = replace(SETTINGS, respects_foreign=True)
    rig.restart()
    rig.pass_s(30, step_s=1.0)
    sampler.used, sampler.processes = (), ()
    rig.pass_s(60, step_s=1.0)
    assert [fact.bad_devices for fact in healths(rig)] == [{}, {"h100": (1,)}]


def test_a_pool_may_share_its_devices_with_others() -> None:
    """If the pool does not request it, others' processes are shown, but have no effect."""
    sampler = FakeSampler(0.5, 0.25)
    sampler.processes = (DeviceProcess(pid=7, device=1, user="eve"),)
    rig = machine(sampler)
    rig.pass_s(40, step_s=1.0)
    assert healths(rig) == [Health()]


def test_devices_that_stay_idle_are_told_once_and_when_they_are_used_again() -> None:
    """There is one report when the pool's time is over, one when the devices are used again."""
    sampler = FakeSampler(0.01, 0.0)
    rig = machine(sampler, idle_warning_s=600.0)
    rig.pass_s(580, step_s=2.0)
    assert idles(rig) == []
    rig.pass_s(400, step_s=2.0)
    assert idles(rig) == ["no use of any of its 2 devices above 5% for 10m"]
    sampler.used = (0.01, 0.5)
    rig.pass_s(60, step_s=2.0)
    assert idles(rig)[1:] == [""]
    assert rig.bucket.end() is None


def test_one_used_device_is_enough() -> None:
    """A host whose other devices are idle is not reported: it works."""
    rig = machine(FakeSampler(0.9, 0.0), idle_warning_s=600.0)
    rig.pass_s(1000, step_s=2.0)
    assert idles(rig) == []


def test_unknown_use_is_no_idleness() -> None:
    """Devices without a reported use, or that are not seen, are not reported as idle."""
    for sampler in (FakeSampler(None, None), FakeSampler()):
        rig = machine(sampler, idle_warning_s=600.0)
        rig.pass_s(1000, step_s=2.0)
        assert idles(rig) == []


def test_an_idle_job_is_stopped_only_where_that_is_asked() -> None:
    """It ends as hung, and its end says that its devices were idle."""
    rig = machine(FakeSampler(0.0, 0.0), idle_warning_s=600.0, stops_idle=True)
    rig.pass_s(700, step_s=2.0)
    end = rig.bucket.end()
    assert end is not None
    assert (end.notice, end.detail) == ("idle", "no use of any of its 2 devices above 5% for 10m")


@pytest.mark.parametrize("runs", [True, False])
def test_an_idle_machine_without_devices_writes_nothing(runs: bool) -> None:
    """A machine without data costs the bucket no write; one that had some costs one more."""
    rig = Rig(settings=SETTINGS, sampler=FakeSampler())
    if runs:
        rig = machine(FakeSampler(), runs_s=20)
    rig.pass_s(300, step_s=1.0)
    assert len(rig.memory.list(layout.USAGE)) == runs
    if runs:
        assert now(rig).hosts == ()
