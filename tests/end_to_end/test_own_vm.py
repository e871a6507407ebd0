"""
The commands of a user's own bastion in a cloud that create its VM.

Google is a server on loopback that is checked against its published description, and the VM runs
its real start-up script here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.clock import SystemClock
from bastion.records.keys import layout
from tests.end_to_end.a_vm_of_google import boot, stop_vm
from tests.end_to_end.admin_files import CONFIG, QUOTA
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import gcs_root
from tests.servers.google import Compute

pytestmark = pytest.mark.end_to_end

NAME = "shared-bastion"
ZONE = ("--name=" + NAME, "--zone=us-central1-a", "--cloud_project=acme")
IDENTITY = "--identity=bastion@acme.iam.gserviceaccount.com"


@pytest.fixture
def cloud() -> Iterator[Compute]:
    """Run Compute Engine on the clock of this machine."""
    with Compute.at(SystemClock()) as made:
        made.project, made.operation_s = "acme", 0.0
        yield made
        assert made.problems == []


@pytest.fixture
def here(tmp_path: Path, cloud: Compute) -> Iterator[Programs]:
    """Provide a user of an empty bucket."""
    with gcs_root(tmp_path) as place:
        env = {**place.env, "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": cloud.url}
        on = Programs(tmp_path, replace(place, env=env))
        try:
            yield on
        finally:
            stop_vm(on.folder)
            on.stop_everything()


def test_a_bastion_of_ones_own_is_made_renewed_and_deleted(here: Programs, cloud: Compute) -> None:
    """`create` uploads the quota file and creates a VM that leads; the rest of its life follows."""
    quota = here.folder / "quota.toml"
    quota.write_text(QUOTA)
    here.place.store.create(layout.CONFIG, CONFIG.encode())
    made = here.run("create", *ZONE, IDENTITY, f"--quota_file={quota}", f"--root={here.place.url}")
    assert f"{NAME} is booting in us-central1-a" in made.stderr
    again = here.run("create", *ZONE, IDENTITY, f"--root={here.place.url}", check=False)
    assert again.returncode == 1
    assert f"there is a VM {NAME} already" in again.stderr
    boot(here, cloud, NAME)
    until(lambda: here.run("status", check=False).returncode == 0, "it leads")
    assert here.client.status().leader == NAME
    assert here.run("run", "--", "echo", "here").stdout == "here\n"
    log = layout.bastion_log(NAME)
    until(lambda: b"leads epoch 1" in (here.place.read(log) or b""), "its log is kept")
    here.run("stop", *ZONE)
    assert cloud.vm(NAME).ended == "TERMINATED"
    elsewhere = here.run("upgrade", *ZONE, f"--root={here.place.url}-2", check=False)
    assert f"{NAME} serves {here.place.url}, not {here.place.url}-2" in elsewhere.stderr
    assert cloud.vm(NAME).ended == "TERMINATED"
    here.run("upgrade", *ZONE, f"--root={here.place.url}")
    assert cloud.vm(NAME).ended == ""
    refused = here.run("delete", *ZONE, check=False)
    assert "--yes" in refused.stderr
    here.run("delete", *ZONE, "--yes")
    assert cloud.vm(NAME).deleted_at is not None


def test_a_wrong_quota_file_is_told_before_anything_is_made(here: Programs, cloud: Compute) -> None:
    """The error has its name and line; the bucket stays empty, and no VM is created."""
    quota = here.folder / "quota.toml"
    quota.write_text(QUOTA + "[nonsense")
    words = ("create", *ZONE, IDENTITY, f"--quota_file={quota}", f"--root={here.place.url}")
    made = here.run(*words, check=False)
    assert made.returncode == 2
    assert made.stderr.startswith(f"error: {quota}: line ")
    quota.unlink()
    assert here.run(*words, check=False).stderr == f"error: {quota}: No such file or directory\n"
    assert here.place.store.list("") == ()
    assert cloud.vms == {}


def test_what_is_meant_for_jobs_is_said(here: Programs) -> None:
    """`stop JOB` affects no VM and names the intended command; errors are immediate."""
    meant = here.run("stop", "train", check=False)
    assert (meant.returncode, "hint: bastion cancel train" in meant.stderr) == (2, True)
    wrong = here.run("create", "--name=shared", "--zone=nowhere", check=False)
    assert wrong.returncode == 2
    assert all(flag in wrong.stderr for flag in ("--name", "--zone", "--identity"))
