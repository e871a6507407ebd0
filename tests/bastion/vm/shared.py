"""The VM that the tests of this folder create."""

from __future__ import annotations

from bastion.vm.bastion_vm import BastionVm

VM = BastionVm(
    name="shared-bastion",
    root_url="gs://bucket/shared-bastion",
    zone="us-central1-a",
    identity="bastion@acme.iam.gserviceaccount.com",
)
