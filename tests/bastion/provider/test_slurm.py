"""Nodes of Slurm as machines: submissions, the output of its programs, and the batch script."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.provider.port import Listed
from bastion.provider.slurm import programs as programs_file
from bastion.provider.slurm.programs import Programs
from bastion.provider.slurm.slurm import SlurmProvider
from bastion.provider.slurm.slurm_request import batch_script, problems, submission
from quota.amounts import Amounts
from tests.contracts.slurm_place import FakePrograms, suspend
from tests.rigs.limits import PATIENCE_S, killed
from tests.servers.slurm import FakeSlurm

BUCKET = "0a1b2c3d4e5f"
POOL = Pool(
    name="here",
    provider="slurm",
    resources=Amounts({"h100": 4, "cpu": 2, "memory": 64 << 30}),
    max_machines=4,
    zones=("main", "more"),
    permit_s=600.0,
)
MACHINE = Machine(name="here-7-0", pool="here", zone="main")


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeSlurm]:
    made = FakeSlurm(tmp_path)
    yield made
    made.end()


@pytest.fixture
def programs(fake: FakeSlurm) -> Programs:
    return FakePrograms(fake)


@pytest.fixture
def provider(programs: Programs) -> SlurmProvider:
    return provider_of(POOL, programs)


def provider_of(pool: Pool, programs: Programs) -> SlurmProvider:
    return SlurmProvider(
        pool, bucket=BUCKET, script=lambda pool, name: "exec sleep 1000", programs=programs
    )


def only(provider: SlurmProvider) -> Listed:
    (listed,) = provider.list()
    return listed


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"zones": ("",), "reservation": "lab", "setup": ("module load cuda",)},
        {"options": {"account": "lab", "qos": "high", "time": "2-00:00:00", "notice": "300"}},
        {"options": {"gres": "gpu:h100:4", "sbatch": "--constraint=ib --comment='a b'"}},
        {"options": {"folder": "/scratch/bastion", "python": "/opt/python3.12/bin/python3"}},
    ],
)
def test_a_good_pool_has_no_problem(changes: dict[str, Any]) -> None:
    """Everything that the guide shows is accepted."""
    assert problems(replace(POOL, **changes)) == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"image": "debian"}, "image: a node of Slurm has none"),
        ({"disk_gib": 10}, "disk: a node of Slurm has none"),
        ({"run_as": "jobs"}, "run_as: a node of Slurm has none"),
        ({"terms": "spot"}, "terms: a node of Slurm has none"),
        ({"labels": {"containers": "true"}}, "containers: a node of Slurm runs no images"),
        ({"options": {"partition": "a"}}, "options.partition: unknown; a pool of provider slurm"),
        ({"options": {"time": "soon"}}, "options.time: 'soon' is not a time of Slurm's"),
        ({"options": {"notice": "0"}}, "options.notice: '0' must be seconds from 1 to 3600"),
        ({"options": {"sbatch": "-C ib"}}, "options.sbatch: '-C' must be one word"),
        ({"options": {"sbatch": "--array=1-9"}}, "options.sbatch: --array is set by Bastion"),
        ({"options": {"sbatch": "--depend=none"}}, "options.sbatch: --depend is set by Bastion"),
        ({"options": {"sbatch": "--clusters=b"}}, "options.sbatch: --clusters is set by Bastion"),
        ({"options": {"sbatch": "--comment='a"}}, 'options.sbatch: "--comment=\'a" cannot be'),
    ],
)
def test_a_mistake_in_a_pool_is_named(changes: dict[str, Any], problem: str) -> None:
    """An error names the field that a node lacks, or that would change its job's identity."""
    (found, *_) = problems(replace(POOL, **changes))
    assert found.startswith(problem)


def test_a_machine_is_a_node_of_its_own_with_all_its_devices() -> None:
    """Its job is named after it, never runs twice and is never requeued by Slurm."""
    options = {"account": "lab", "time": "1:00:00", "sbatch": "--constraint=ib"}
    command = submission(replace(POOL, options=options), MACHINE, bucket=BUCKET)
    assert command[0] == "sbatch"
    assert {
        f"--job-name=bastion-{BUCKET}-here-7-0",
        "--dependency=singleton",
        "--no-requeue",
        "--exclusive",
        "--nodes=1",
        "--partition=main",
        "--gres=gpu:4",
        "--account=lab",
        "--time=1:00:00",
        "--constraint=ib",
        "--signal=B:USR1@120",
    } <= set(command)


@pytest.mark.parametrize(
    ("changes", "gres"),
    [
        ({"options": {"gres": "gpu:h100:4"}}, ["--gres=gpu:h100:4"]),
        ({"options": {"gres": "none"}}, []),
        ({"resources": Amounts({"cpu": 2})}, []),
    ],
)
def test_devices_are_asked_for_as_the_pool_says(changes: dict[str, Any], gres: list[str]) -> None:
    """By default a number of any kind is requested; a cluster may use other names, or none."""
    command = submission(replace(POOL, **changes), MACHINE, bucket=BUCKET)
    assert [word for word in command if word.startswith("--gres")] == gres


def test_what_finds_no_node_waits_in_the_words_of_slurm(provider: SlurmProvider) -> None:
    """The third job of a partition of two nodes is queued, and runs when one is free."""
    made = [replace(MACHINE, name=f"here-7-{index}") for index in range(3)]
    provider.create(made, POOL)
    listed = {each.name: each for each in provider.list()}
    assert [listed[each.name].state for each in made] == ["running", "running", "waiting"]
    assert listed["here-7-2"].text == "Slurm: Resources"
    provider.delete("here-7-0")
    until(lambda: {each.name: each.state for each in provider.list()}["here-7-2"] == "running")


def test_a_job_that_was_queued_and_is_cancelled_is_gone(provider: SlurmProvider) -> None:
    """It never ran, and its name is used up."""
    made = [replace(MACHINE, name=f"here-7-{index}") for index in range(3)]
    provider.create(made, POOL)
    provider.delete("here-7-2")
    provider.create(made, POOL)
    last = {each.name: each for each in provider.list()}["here-7-2"]
    assert (last.state, last.text) == ("gone", "Slurm: CANCELLED (Resources)")


def test_a_lost_answer_makes_no_second_machine(fake: FakeSlurm, provider: SlurmProvider) -> None:
    """Slurm runs one job of a name at a time; the other one is cancelled when it is seen."""
    provider.create([MACHINE], POOL)
    command = submission(POOL, MACHINE, bucket=BUCKET)
    FakePrograms(fake).run(*command, text="exec sleep 1000")  # as from a replaced bastion
    assert only(provider).state == "running"
    provider.delete(MACHINE.name)
    until(lambda: only(provider).state == "gone")
    assert fake.made() == 2


def test_a_node_that_failed_is_not_taken_for_gone(fake: FakeSlurm, provider: SlurmProvider) -> None:
    """Its processes may continue: only the permit of the keeper proves that they do not."""
    provider.create([MACHINE], POOL)
    fake.fail_node(f"bastion-{BUCKET}-{MACHINE.name}")
    assert provider.list() == ()
    assert not provider.vouches


def test_an_end_is_believed_where_the_node_answers(
    fake: FakeSlurm, provider: SlurmProvider
) -> None:
    """A job that is cancelled while the slurmd of its node is dead may continue there."""
    provider.create([MACHINE], POOL)
    fake.set("silent-n1")
    provider.delete(MACHINE.name)
    until(lambda: provider.list() == ())
    fake.set("silent-n1", is_on=False)
    assert only(provider).state == "gone"


def test_other_jobs_are_left_alone(fake: FakeSlurm, provider: SlurmProvider) -> None:
    """A job of the user's own, of another pool or of another bucket is neither listed nor ended."""
    names = ("train", f"bastion-{BUCKET}-other-7-0", "bastion-000000000000-here-7-0", "a\nb|c")
    for name in names:
        FakePrograms(fake).run("sbatch", f"--job-name={name}", text="exec sleep 1000")
    provider.create([MACHINE], POOL)
    assert only(provider).name == MACHINE.name
    provider.delete(MACHINE.name)
    until(lambda: only(provider).state == "gone")
    said = FakePrograms(fake).run("squeue", "--format=%j")
    assert said.splitlines() == "\n".join(names).splitlines()


def test_a_suspended_job_is_resumed(programs: Programs, provider: SlurmProvider) -> None:
    """A job that Slurm suspended has no running agent; create resumes it."""
    provider.create([MACHINE], POOL)
    suspend(programs, MACHINE.name)
    assert (only(provider).state, only(provider).text) == ("stopped", "Slurm: SUSPENDED")
    provider.create([MACHINE], POOL)
    assert only(provider).state == "running"


def test_a_job_that_only_an_operator_resumes_stays_suspended(
    fake: FakeSlurm, programs: Programs, provider: SlurmProvider
) -> None:
    """Slurm's refusal does not keep other machines of the pool from being created."""
    provider.create([MACHINE], POOL)
    suspend(programs, MACHINE.name)
    fake.set("owned")
    other = replace(MACHINE, name="here-7-1")
    provider.create([MACHINE, other], POOL)
    assert [each.state for each in provider.list()] == ["stopped", "running"]


def test_refusals_limits_and_outages_are_told_apart(
    fake: FakeSlurm, provider: SlurmProvider
) -> None:
    """A refusal names the partition; a refused machine is created once it is allowed."""
    fake.set("refused")
    with pytest.raises(ProviderRefusedError) as refused:
        provider.create([MACHINE], POOL)
    said = "sbatch for partition main: Invalid partition name specified"
    assert refused.value.message == said
    assert provider.lacking() == (said, said.replace("main", "more"))
    fake.set("refused", is_on=False)
    assert provider.lacking() == ()
    fake.set("limited")
    with pytest.raises(NoCapacityError) as limited:
        provider.create([MACHINE], POOL)
    assert limited.value.is_limit
    fake.set("limited", is_on=False)
    fake.set("down")
    for call in (provider.list, provider.lacking, lambda: provider.delete(MACHINE.name)):
        with pytest.raises(ProviderUnavailableError, match="Unable to contact slurm controller"):
            call()
    fake.set("down", is_on=False)
    provider.create([MACHINE], POOL)
    assert only(provider).state == "running"


def test_what_slurm_refused_is_no_end(programs: Programs) -> None:
    """Slurm shows a refused submission as failed for some minutes; there was no machine."""

    class Refusing(Programs):
        def call(self, argv: Any, text: str) -> subprocess.CompletedProcess[str]:
            line = f"3|FAILED|main|2026-11-30T03:37:45||BadConstraints|bastion-{BUCKET}-here-7-0\n"
            return subprocess.CompletedProcess(argv, 0, line, "")

    assert provider_of(POOL, Refusing({})).list() == ()


@pytest.mark.parametrize("state", ["REQUEUED", "REQUEUE_FED", "RESV_DEL_HOLD"])
def test_what_slurm_holds_is_no_end(state: str) -> None:
    """A job in Slurm's queue is a waiting machine: it is cancelled when no longer wanted."""

    class Holding(Programs):
        def call(self, argv: Any, text: str) -> subprocess.CompletedProcess[str]:
            line = f"3|{state}|main|2026-11-30T03:37:45||Reason|bastion-{BUCKET}-here-7-0\n"
            return subprocess.CompletedProcess(argv, 0, line, "")

    assert only(provider_of(POOL, Holding({}))).state == "waiting"


def test_programs_that_are_missing_or_hang_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host without Slurm has a setting to fix; a program that hangs is an unknown outcome."""
    with pytest.raises(ProviderRefusedError, match="squeue is not installed here"):
        Programs({"PATH": str(tmp_path)}).run("squeue")
    (tmp_path / "squeue").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setattr(programs_file, "CALL_S", 0.1)
    with pytest.raises(ProviderUnavailableError, match="squeue has not answered within"):
        Programs({"PATH": f"{tmp_path}:{os.environ['PATH']}"}).run("squeue")


def test_a_job_has_of_the_bastions_variables_what_agents_get(tmp_path: Path) -> None:
    """It has agents' credentials and the place of Slurm, but no folder of the bastion's host."""
    (tmp_path / "env").symlink_to("/usr/bin/env")
    environ = {
        "PATH": str(tmp_path),
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "AWS_PROFILE": "bastion",
        "AGENT_AWS_PROFILE": "agents",
        "TMPDIR": "/run/bastion",
        "SECRET": "x",
    }
    said = dict(line.split("=", 1) for line in Programs(environ).run("env").splitlines())
    assert said.keys() - {"LC_CTYPE"} == {"PATH", "SLURM_CONF", "AWS_PROFILE"}
    assert said["AWS_PROFILE"] == "agents"


class Batch:
    """A running batch script."""

    def __init__(self, folder: Path, start: str, **options: str) -> None:
        self.home = folder / "bastion" / BUCKET / MACHINE.name
        pool = replace(POOL, options={"folder": str(folder / "bastion"), **options})
        script = folder / "script"
        script.write_text(batch_script(pool, MACHINE.name, start, bucket=BUCKET))
        self.process = subprocess.Popen(
            ["/bin/sh", str(script)], stderr=subprocess.PIPE, text=True, start_new_session=True
        )


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Any]:
    begun: list[Batch] = []

    def run(start: str, **options: str) -> Batch:
        begun.append(Batch(tmp_path, start, **options))
        return begun[-1]

    yield run
    for each in begun:
        with suppress(ProcessLookupError):
            os.killpg(each.process.pid, signal.SIGKILL)  # including what an orphan left
        killed(each.process)
        assert each.process.stderr is not None
        each.process.stderr.close()


def test_the_folder_of_a_machine_goes_with_its_job(begin: Any) -> None:
    """The start-up script runs in it, and its output is kept as long."""
    batch = begin('echo "in $BASTION_BOOT_DIR"; pwd >here; until [ -e over ]; do sleep 0.01; done')
    until(lambda: (batch.home / "here").exists())
    assert (batch.home / "boot.log").read_text() == f"in {batch.home}\n"
    assert batch.home.stat().st_mode & 0o077 == 0
    (batch.home / "over").touch()
    assert batch.process.wait(PATIENCE_S) == 0
    assert not batch.home.exists()


@pytest.mark.skipif(not shutil.which("systemd-tmpfiles"), reason="needs systemd-tmpfiles")
def test_a_node_that_deletes_old_files_leaves_those_of_a_machine(
    begin: Any, tmp_path: Path
) -> None:
    """A machine may outlive the age at which its node deletes files of /tmp."""
    batch = begin("touch here; exec sleep 1000")
    until(lambda: (batch.home / "here").exists())
    (tmp_path / "bastion" / "old").touch()
    (tmp_path / "conf").write_text(f"e {tmp_path}/bastion - - - 1us\n")
    subprocess.run(["systemd-tmpfiles", "--clean", str(tmp_path / "conf")], check=True)
    assert not (tmp_path / "bastion" / "old").exists()
    assert (batch.home / "here").exists()
    assert (batch.home / "start").exists()


def test_the_end_of_its_time_is_noted_ahead(begin: Any) -> None:
    """Slurm signals the batch script in advance; its agent reads the time."""
    batch = begin("touch here; exec sleep 1000", notice="300")
    until(lambda: (batch.home / "here").exists())
    before = int(time.time())
    batch.process.send_signal(signal.SIGUSR1)
    until(lambda: (batch.home / "notice").exists())
    assert before + 300 <= int((batch.home / "notice").read_text()) <= time.time() + 301
    assert batch.process.poll() is None


def test_an_orphan_ends_its_job(begin: Any) -> None:
    """The agent of an orphan signals the batch script, which ends with the whole job."""
    batch = begin("touch here; exec sleep 1000")
    until(lambda: (batch.home / "here").exists())
    batch.process.send_signal(signal.SIGUSR2)
    assert batch.process.wait(PATIENCE_S) == 0
    assert not batch.home.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder away")
def test_a_folder_of_another_user_is_not_used(begin: Any, tmp_path: Path) -> None:
    """A user with an earlier folder below /tmp could read the credentials of a machine."""
    (tmp_path / "bastion").mkdir()
    os.chown(tmp_path / "bastion", 65534, 65534)
    batch = begin("touch here")
    assert batch.process.wait(PATIENCE_S) == 1
    assert "belongs to another user" in batch.process.stderr.read()
    assert list((tmp_path / "bastion").iterdir()) == []


def until(is_so: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
