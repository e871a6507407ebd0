"""What the demo continues with after its scenario, and its simulated devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bastion.agent.usage.devices import device_file, devices_of
from bastion.client.look.views import JobView, MachineView
from bastion.clock import SystemClock
from bastion.value import replace
from launch.demo.devices import MadeDevices, rows
from launch.demo.encore import LANGUAGE, LANGUAGE_EVERY_S, VISION_DEVICES, Encore, Piece
from launch.demo.screen import Screen
from launch.screen.render import Output
from quota.amounts import Amounts

DEVICES = 16


def test_there_is_always_work_that_runs_and_work_that_waits() -> None:
    """Vision has more work than all devices; language returns for half of them."""
    encore, active, waves, failures = Encore(), list[tuple[float, Piece]](), 0, 0
    for second in range(600):
        active = [(until, each) for until, each in active if until > second]
        new = encore.due(float(second), [each for _, each in active])
        active += [(second + each.runs_s, each) for each in new]
        waves += new[-len(LANGUAGE) :] == LANGUAGE
        failures += sum(each.exit_code != 0 for each in new)
        asked = sum(each.devices for _, each in active if each.user == "ada")
        assert DEVICES < VISION_DEVICES <= asked <= VISION_DEVICES + 8
    assert waves == 600 // LANGUAGE_EVERY_S + 1
    assert failures
    assert sum(each.devices for each in LANGUAGE) == DEVICES // 2


def test_devices_are_as_busy_as_the_jobs_that_hold_them(tmp_path: Path) -> None:
    """A held device is used, with varying intensity; one that no job holds is idle."""
    machine = MachineView(
        name="laptop-1-0",
        pool="laptop",
        phase="ready",
        resources=Amounts({"h100": 8}),
        held={"detect-1": {"h100": (0, 1)}, "starved-1": {"h100": (2,)}},
    )
    seen = [[row["used"] for row in rows(machine, float(now))] for now in range(120)]
    assert all(used[0] > 0.1 and used[1] > 0.1 for used in seen)
    assert all(0.0 <= each <= 1.0 for used in seen for each in used)
    assert all(used[2] < 0.05 and used[3:] == [0.0] * 5 for used in seen)
    assert len({used[0] for used in seen}) > 20
    made = MadeDevices(tmp_path / "devices")
    made.show([machine], 5.0)
    path = device_file({"BASTION_DEVICE_FILE": made.setting}, "laptop-1-0")
    found = devices_of(json.dumps(json.loads(Path(path).read_text())).encode())
    assert [each.used for each in found.each] == seen[5]
    assert found.each[0].memory_bytes > found.each[3].memory_bytes == 0


def test_a_job_that_waits_is_told_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """A line appears once the scheduler has judged the job, and once for each state."""
    screen = Screen(Output(), SystemClock())
    new = JobView(
        id="fourth-1", name="fourth", project="vision", user="ada", launch="f", state="queued"
    )
    judged, running = replace(new, text="behind extra"), replace(new, state="running")
    for seen in (new, new, judged, judged, running, running):
        screen.jobs((seen,))
    told = [line.split("s  ", 1)[1].rstrip() for line in capsys.readouterr().out.splitlines()]
    assert told == ["fourth   queued     behind extra", "fourth   running"]


def test_a_state_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Later lines have the cause, without repeating the word."""
    stopping = JobView(
        id="extra-1",
        name="extra",
        project="vision",
        user="ada",
        launch="e",
        state="stopping",
        text="stopping: preempted for urgent-1",
    )
    Screen(Output(), SystemClock()).jobs((stopping,))
    told = capsys.readouterr().out.split("s  ", 1)[1].rstrip()
    assert told == "extra    stopping   preempted for urgent-1"
