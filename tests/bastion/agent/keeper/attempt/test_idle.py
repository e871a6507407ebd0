"""The watchdog of the real keeper: what counts as a sign of life, and its report of a hang."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.agent.keeper.attempt.idle import used_devices
from bastion.agent.keeper.attempt.signs_of_life import span
from bastion.agent.keeper.port import IDLE, ExitRecord, IdleRule, ProcessStart
from tests.rigs.keepers import SLEEPS, RealWorld, attempt, shell

BUSY = "echo up; while :; do :; done"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RealWorld]:
    """A real keeper."""
    made = RealWorld(tmp_path / "home")
    yield made
    made.close()


def rule(*signs: str, timeout_s: float = 0.5, devices: tuple[int, ...] = ()) -> IdleRule:
    """Return a rule that ends an attempt without one of `signs`."""
    return IdleRule(timeout_s=timeout_s, signs=signs, devices=devices)


def stop(world: RealWorld, key: str) -> ExitRecord:
    """End it as a user does, and return its record."""
    world.keeper.stop(key, reason="cancel", by="ann", grace_s=10.0)
    return world.ended(key)


def program(folder: Path, name: str, *lines: str) -> None:
    """Write a program of that name in `folder`."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)


def looked(path: Path, times: int) -> bool:
    """Whether the scripted nvidia-smi ran that often."""
    return path.exists() and path.read_text().count("asked") >= times


def test_work_of_processors_is_a_sign_of_life(world: RealWorld) -> None:
    """A silent job that computes continues; the same job is hung if only output counts."""
    world.keeper.start(attempt("calm", SLEEPS, idle=rule("output", "processor")))
    lives = rule("output", "processor", timeout_s=1.5)
    world.keeper.start(attempt("busy", BUSY, idle=lives))
    assert world.ended("calm").notices[0].reason == IDLE
    world.keeper.start(attempt("silent", SLEEPS, idle=lives))
    assert world.ended("silent").notices[0].reason == IDLE
    assert stop(world, "busy").notices[0].reason == "cancel"
    world.keeper.start(attempt("spins", BUSY, idle=rule("output")))
    assert world.ended("spins").idle == "no output for 0.5 s"


def test_use_of_its_own_devices_is_a_sign_of_life(world: RealWorld, tmp_path: Path) -> None:
    """Use of its own devices counts, by nvidia-smi; use of other devices does not."""
    asked = tmp_path / "asked"
    program(tmp_path / "bin", "nvidia-smi", f"echo asked >> {asked}", "echo '0, 0'", "echo '3, 97'")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    signs = ("output", "devices", "processor")
    world.keeper.start(attempt("uses", shell(SLEEPS, **env), idle=rule(*signs, devices=(3,))))
    world.keeper.start(attempt("idles", shell(SLEEPS, **env), idle=rule(*signs, devices=(0, 1))))
    record = world.ended("idles")
    assert record.idle == "no output, no device use and no CPU use for 0.5 s"
    world.until(lambda: looked(asked, 40), "nvidia-smi is not asked")
    assert stop(world, "uses").notices[0].reason == "cancel"


def test_an_nvidia_smi_that_hangs_blocks_nothing(world: RealWorld, tmp_path: Path) -> None:
    """It is killed without an answer, and the attempt ends in time with nothing left."""
    program(tmp_path / "bin", "nvidia-smi", "exec sleep 1000")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    signs = rule("output", "devices", devices=(0,))
    world.keeper.start(attempt("a", shell(SLEEPS, **env), idle=signs))
    assert world.ended("a").idle == "no output and no device use for 0.5 s"


def test_where_no_device_can_be_seen_output_decides(world: RealWorld) -> None:
    """Without nvidia-smi that sign is left out; if it is the only one, there is no watch."""
    world.keeper.start(attempt("blind", SLEEPS, idle=rule("devices", devices=(0,), timeout_s=0.1)))
    world.keeper.start(attempt("a", SLEEPS, idle=rule("output", "devices", devices=(0,))))
    assert world.ended("a").idle == "no output for 0.5 s"
    assert stop(world, "blind").notices[0].reason == "cancel"


def test_stacks_of_every_process_are_in_the_log(world: RealWorld) -> None:
    """For each process and its children: command, state, threads and where they wait."""
    line = "echo up; sh -c 'sleep 1001; :' & exec sleep 1002"
    world.keeper.start(attempt("a", line, SLEEPS, idle=rule("output")))
    world.ended("a")
    log = world.log("a").decode()
    head, _, rest = log.partition("no output for 0.5 s; the stacks of its ")
    assert head == "up\n\n[bastion: "
    assert rest.startswith("4 processes:]\n")
    assert rest.endswith("[bastion: end of the stacks]\n")
    for command in ("(p0), child of", "sleep 1002", "sleep 1001", "(p1), child of", "sleep 1000"):
        assert command in rest
    assert rest.count("  thread ") >= 4
    assert "sleeping" in rest
    assert "s of CPU time, up" in rest
    assert world.log("a", 1) == b"up\n"


def test_python_stacks_come_from_py_spy(world: RealWorld, tmp_path: Path) -> None:
    """A py-spy in the job's `PATH` runs for each Python process; its absence is reported."""
    lines = "import time; print('up', flush=True); time.sleep(1000)"
    argv = (sys.executable, "-I", "-S", "-c", lines)

    program(tmp_path / "bin", "py-spy", 'echo "Thread $1 $2: sleep (train.py:7)"')
    program(tmp_path / "denied", "py-spy", "echo 'Permission denied' >&2", "exit 1")
    told = {
        f"{tmp_path / 'bin'}:/usr/bin:/bin": (
            "  Python stacks:\n    Thread dump --pid: sleep (train.py:7)"
        ),
        f"{tmp_path / 'denied'}:/usr/bin:/bin": (
            "  no Python stacks, py-spy says:\n    Permission denied"
        ),
        "/nowhere": "  no Python stacks: py-spy is not installed",
    }
    for key, path in zip("abc", told, strict=True):
        process = ProcessStart(argv=argv, env={"PATH": path}, cwd="/tmp")
        world.keeper.start(attempt(key, process, idle=rule("output", timeout_s=1.0)))
    for key, said in zip("abc", told.values(), strict=True):
        world.ended(key)
        assert said in world.log(key).decode()


def test_a_dumped_attempt_is_stopped_all_the_same(world: RealWorld) -> None:
    """A hung process that ignores the notice is killed after its grace period, with its tree."""
    line = "trap '' TERM; echo up; setsid sleep 1000 & while :; do sleep 1000; done"
    world.keeper.start(attempt("a", line, idle=rule("output"), grace_s=0.2))
    record = world.ended("a")
    assert (record.processes[0].signal, record.notices[0].reason) == (9, IDLE)


def test_unknown_utilisation_is_no_use() -> None:
    """Devices in MIG mode have no utilisation; errors and other text are skipped."""
    said = b"0, 0\n1, 12\n2, [N/A]\n3, [Not Supported]\nNo devices were found\n 10 , 100\n"
    assert used_devices(said) == {1, 10}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1800.0, "30 min"), (7200.0, "2 h"), (90.0, "90 s"), (0.5, "0.5 s"), (60.0, "1 min")],
)
def test_times_are_formatted_for_people(seconds: float, text: str) -> None:
    """They are in the largest unit that divides them."""
    assert span(seconds) == text
