"""
AXLearn's document on its bastion, section by section, with the command `bastion`.

Each command is as in the document, except for `axlearn gcp`. Google is three servers on loopback:
the bucket, Compute Engine for the bastion's VM, and Cloud TPU for the slice. Their machines run the
real start-up scripts, here. The image is built in `test_our_image.py`; here the VM runs the wheel.

Source: github.com/apple/axlearn, docs/04-infrastructure.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.clock import SystemClock
from bastion.store.gcs import GcsStore
from tests.end_to_end.a_vm_of_google import boot, stop_vm
from tests.end_to_end.grounds import show_boot_logs
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import Place
from tests.servers.gcs import GcsServer
from tests.servers.google import Compute, Tpu
from tests.servers.google.hosts import hosts

pytestmark = [pytest.mark.end_to_end, pytest.mark.prove]

USER = "user2"
NAME = f"{USER}-bastion"

QUOTA = """
[toml-schema]
version = "1"

[total_resources]
v4 = 1024

[project_membership]
project1 = ["user1", "user2"]
project2 = ["user1", "user3"]

[project_resources.project1]
v4 = 0.6

[project_resources.project2]
v4 = 0.4
"""
"""The document's, character by character."""

POOLS = f"""
[pools.v4]
provider = "gcp_tpu"
instance_type = "tpu-v4-32"
zones = ["us-central2-b"]
max_machines = 4
idle_timeout = "1m"
health = {{ devices = false }}
options = {{ project = "acme", python = "{sys.executable}" }}
"""
"""Not in the document: there, each job brings the code that creates its machines."""

JAX = "def devices():\n    return ['a chip of a v4']\n"
COMMAND = ("python3", "-c", "'import jax; print(jax.devices())'")
"""A note of the document: the quotes are important."""


@pytest.fixture
def bucket() -> Iterator[GcsServer]:
    """Provide the bucket that is PRIVATE_BUCKET and PERMANENT_BUCKET in the document."""
    with GcsServer("bucket") as made:
        yield made


@pytest.fixture
def compute() -> Iterator[Compute]:
    """Run Compute Engine on the clock of this machine."""
    with Compute.at(SystemClock()) as made:
        made.operation_s, made.delete_s, made.zones = 0.0, 0.0, ("us-central2-b",)
        yield made
        assert made.problems == []


@pytest.fixture
def tpu() -> Iterator[Tpu]:
    """Run Cloud TPU on the clock of this machine."""
    with Tpu.at(SystemClock()) as made:
        made.operation_s, made.queue_s, made.boot_s, made.delete_s = 0.2, 0.2, 0.5, 0.5
        yield made
        assert made.problems == []


@pytest.fixture
def user(tmp_path: Path, bucket: GcsServer, compute: Compute, tpu: Tpu) -> Iterator[Programs]:
    """Provide a user whose programs reach these servers as Google, and whose code has a jax."""
    to_bucket = {"STORAGE_EMULATOR_HOST": bucket.url}
    env = {
        **to_bucket,
        "USER": USER,
        "LOGNAME": USER,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": compute.url,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": tpu.url,
    }
    store = GcsStore("bucket", NAME, credentials=None, endpoint=bucket.url)
    on = Programs(tmp_path, Place(url=f"gs://bucket/{NAME}", env=env, store=store))
    del on.env["BASTION_ROOT"]  # the profile says where it is
    (on.project / "requirements.txt").touch()
    (on.project / "jax.py").write_text(JAX)
    with hosts(tpu, tmp_path / "slices", to_bucket):
        try:
            yield on
        finally:
            stop_vm(tmp_path)
            on.stop_everything()
            show_boot_logs(tmp_path)


def test_its_commands_work_as_they_are_written(
    user: Programs, bucket: GcsServer, compute: Compute, tpu: Tpu
) -> None:
    """From an activated configuration to the output of jobs on a slice, in the document's order."""
    everything = GcsStore("bucket", "", credentials=None, endpoint=bucket.url)

    # Pre-requisites: "We also assume you have activated a project config. This is mainly a
    # convenience so that you do not have to specify mundane flags like --project and --zone."
    user.run(
        *("config", "set", "--profile=acme", f"root=gs://bucket/{NAME}", "zone=us-central2-b"),
        *("cloud_project=acme", "identity=bastion@acme.iam.gserviceaccount.com", "code=."),
        "image_repo=us-docker.pkg.dev/acme/images",
    )
    user.run("config", "activate", "acme")

    # Setting up: "please make sure you have authenticated to GCP".
    assert user.run("auth", "--print").stdout.splitlines() == [
        "gcloud auth login --update-adc",
        "gcloud auth configure-docker us-docker.pkg.dev --quiet",
    ]

    # "upload the file to the private_bucket under the following path"
    everything.create(f"{NAME}/project-quotas/project-quotas.config", QUOTA.encode())
    everything.create(f"{NAME}/config/bastion.toml", POOLS.encode())

    # "Creates a VM and runs the bastion image on it."
    user.run("create", f"--name={NAME}")
    assert compute.names() == [NAME]
    boot(user, compute, NAME)

    # "When the bastion is booted, you can view logs at"
    until(lambda: user.run("status", check=False).returncode == 0, "it leads")
    log = f"{NAME}/logs/{NAME}"

    def logged() -> bytes:
        found = everything.read(log)
        return found.data if found is not None else b""

    until(lambda: b"leads epoch 1" in logged(), "its log is in the bucket")
    said = user.run("create", "--help").stdout
    assert "ROOT/logs/NAME" in " ".join(said.split())

    # Launching a job: "Launch a v4-32 job via Bastion."
    launch = ("launch", "--instance_type=tpu-v4-32", f"--bastion={NAME}")
    first = user.run(*launch, "--", *COMMAND)
    assert "is sent without its inner quotes" in first.stderr
    # "Launch a v4-32 job via bastion under project1."
    second = user.run(*launch, "--project_id=project1", "--user_id=user1", "--", *COMMAND)
    jobs = [ran.stdout.strip() for ran in (first, second)]
    assert user.run("list", "--all", "-q").stdout.split() == sorted(jobs, key=jobs.index)
    user.run("launch", "--help")

    # "The job itself will have two different types of logs": that of the bastion, and those of the
    # TPUs, one for each of the four hosts.
    for job in jobs:
        assert user.run("wait", "-q", job).stdout.strip() == job
        assert user.run("logs", job).stdout == "['a chip of a v4']\n" * 4
        assert "running" in user.run("events", job).stdout
    assert tpu.made == 1

    # What to do with a job that is no longer wanted.
    sleeper = user.run(*launch, "-q", "--", "sleep", "1000").stdout.strip()
    user.run("cancel", sleeper)
    assert user.run("wait", sleeper, check=False).returncode != 0
    assert "cancelled" in user.run("show", sleeper).stdout
    user.run("delete", f"--name={NAME}", "--yes")
    until(lambda: not compute.names(), "its VM is deleted")
