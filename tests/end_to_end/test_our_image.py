"""
The image of Bastion's own Dockerfile, from `bastion bundle` to a job run by a VM's bastion.

The base is made of Debian's packages under the Dockerfile's name, so only a registry on loopback is
used. What the Dockerfile itself installs comes from Debian and PyPI.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bastion.clock import SystemClock
from bastion.records.keys import layout
from tests.end_to_end.a_vm_of_google import boot, stop_vm
from tests.end_to_end.admin_files import QUOTA
from tests.end_to_end.programs import REPOSITORY, Programs, until
from tests.end_to_end.roots import gcs_root
from tests.servers.debian_base import load_base, needs_debootstrap
from tests.servers.dockerd import Dockerd, dockerd, needs_dockerd
from tests.servers.google import Compute

pytestmark = [pytest.mark.end_to_end, *needs_dockerd, needs_debootstrap]

NAME = "alice-bastion"
BUILD_S = 1200.0
"""Time in which packages of Debian and PyPI are fetched."""
POOL = '[pools.vm]\nprovider = "local"\ncount = 1\nresources = { cpu = 1 }\n'


@pytest.fixture
def docker() -> Iterator[Dockerd]:
    """Run a daemon with the base, and a registry."""
    (base,) = re.findall(
        r"^ARG PYTHON_IMAGE=(\S+)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE
    )
    # Addresses of sockets are short, and an engine has some deep below its folder.
    with TemporaryDirectory(prefix="engine") as short, dockerd(Path(short)) as made:
        load_base(made, base, Path(short))
        try:
            yield made
        finally:
            made.docker("ps", "-a")
            for container in made.docker("ps", "-aq").split():
                sys.stdout.write(made.docker("logs", container))
                made.docker("rm", "-f", container)


@pytest.fixture
def cloud() -> Iterator[Compute]:
    """Run Compute Engine on the clock of this machine."""
    with Compute.at(SystemClock()) as made:
        made.operation_s = made.delete_s = 0.0
        yield made
        assert made.problems == []


@pytest.fixture
def here(tmp_path: Path, cloud: Compute, docker: Dockerd) -> Iterator[Programs]:
    """Provide a user of an empty bucket, whose images go to that registry."""
    (tmp_path / NAME).mkdir()
    with gcs_root(tmp_path / NAME) as place:
        env = {**place.env, "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": cloud.url}
        on = Programs(tmp_path, replace(place, env=env))
        on.env["DOCKER_HOST"] = docker.daemon
        on.env["BASTION_IMAGE_REPO"] = f"{docker.registry}/acme"
        try:
            yield on
        finally:
            stop_vm(tmp_path)
            on.stop_everything()


def docker_of_a_vm(here: Programs, docker: Dockerd) -> Path:
    """Return a folder with the VM's docker: it reaches this daemon, and passes our bucket on."""
    real, tools = shutil.which("docker"), here.folder / "tools"
    tools.mkdir()
    bucket = f"STORAGE_EMULATOR_HOST={here.env['STORAGE_EMULATOR_HOST']}"
    (tools / "docker").write_text(
        f"#!/bin/sh\nexport DOCKER_HOST={docker.daemon}\nverb=$1; shift\n"
        f'[ "$verb" != run ] || set -- -e {bucket} "$@"\nexec {real} "$verb" "$@"\n'
    )
    (tools / "docker").chmod(0o755)
    return tools


def test_the_image_of_our_dockerfile_runs_a_whole_road(
    here: Programs, cloud: Compute, docker: Dockerd
) -> None:
    """It is built and pushed by `bundle`, pulled by the VM, and its bastion runs a job."""
    spec = ("image=base", "dockerfile=Dockerfile", "target=bastion", f"context={REPOSITORY}")
    # This daemon has no network to give; on a usual one, the last option is left out.
    flags = [f"--bundler_spec={word}" for word in (*spec, "network=host")]
    made = here.run(
        "bundle", f"--name={NAME}", "--bundler_type=artifactregistry", *flags, timeout_s=BUILD_S
    )
    image = f"{docker.registry}/acme/base"
    assert re.fullmatch(rf"{image}@sha256:[0-9a-f]{{64}}", made.stdout.strip())
    docker.docker("image", "rm", "--force", f"{image}:{NAME}")

    quota = here.folder / "quota.toml"
    quota.write_text(QUOTA)
    here.place.store.create(layout.CONFIG, POOL.encode())
    vm = (f"--name={NAME}", "--zone=us-central1-a", "--cloud_project=acme", "--image=base")
    identity = "--identity=bastion@acme.iam.gserviceaccount.com"
    here.run("create", *vm, identity, f"--quota_file={quota}", f"--root={here.place.url}")
    boot(here, cloud, NAME, docker_of_a_vm(here, docker))
    until(lambda: here.run("status", check=False).returncode == 0, "it leads")
    assert docker.docker("ps", "--format={{.Image}}") == f"{image}:{NAME}"

    job, printed = here.follow("--resources=cpu=1", "--project_id=red", "--", "id", "-u")
    assert printed == "1000\n"  # the user of the image, not of this machine
    until(lambda: here.place.result("red", job), "its result is in the bucket")
    result = here.place.result("red", job)
    assert result is not None
    assert result.outcome == "succeeded"
    assert here.place.read(layout.bastion_log(NAME))
    docker.docker("rm", "--force", "bastion")
    until(lambda: docker.docker("ps", "-q"), "the VM begins it again")
