"""An upgrade changes what it is told to change, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.errors import SpecError
from bastion.provider.boot import cloud_init
from bastion.vm.renewed import renewed
from bastion.vm.script import startup_script
from tests.bastion.vm.shared import VM

IMAGE = "europe-docker.pkg.dev/acme/images/bastion:v1"
MADE = replace(
    VM, quota_url="gs://private/the quota.toml", metrics_port=9420, metrics_host="0.0.0.0"
)


@pytest.mark.parametrize("image", ["", IMAGE])
@pytest.mark.parametrize("frame", [str, cloud_init])
def test_what_is_not_said_stays(image: str, frame: type[str]) -> None:
    """A VM that boots a container system has no Python; a private quota file stays private."""
    made = replace(MADE, image=image, wheel="" if image else "wheels/old", digest="old")
    script = frame(startup_script(made))
    asked = replace(VM, wheel="wheels/new", digest="new")
    assert renewed(asked, script) == replace(made, wheel="wheels/new", digest="new")


def test_what_is_said_changes() -> None:
    """Every given flag counts."""
    asked = replace(
        VM, image=IMAGE, quota_url="gs://other/q.toml", metrics_port=1, metrics_host="10.0.0.1"
    )
    assert renewed(asked, startup_script(MADE)) == asked


@pytest.mark.parametrize("image", ["", IMAGE])
def test_a_vm_of_another_bucket_is_refused(image: str) -> None:
    """The profile may name another bucket than that of the VM."""
    script = startup_script(replace(VM, image=image))
    with pytest.raises(SpecError, match="serves gs://bucket/shared-bastion, not gs://b/x") as told:
        renewed(replace(VM, root_url="gs://b/x"), script)
    assert "--root=gs://bucket/shared-bastion" in told.value.hint


def test_a_script_that_is_not_known_is_refused() -> None:
    """Its settings could not be kept."""
    with pytest.raises(SpecError, match="that this version does not know"):
        renewed(VM, "#!/bin/sh\n")
