"""Which instance is which machine: tags, launch indices and tokens."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bastion.errors import ProviderRefusedError
from bastion.machine import Machine
from bastion.provider.aws.batch import Batch, batch_of, machine_of, tags_of, token_of
from tests.servers.aws.metadata import metadata_of


def machines(*indices: int, zone: str = "us-east-1a", batch: str = "g1") -> list[Machine]:
    return [Machine(name=f"gpu-7-{index}", pool="gpu", zone=zone, batch=batch) for index in indices]


@given(st.sets(st.integers(0, 40), min_size=1, max_size=30), st.integers(0, 10**6))
def test_tags_and_launch_index_give_the_machine(indices: set[int], seq: int) -> None:
    """Each machine of a batch is found again by its launch index, even if some are missing."""
    batch = Batch(pool="gpu-a.b@c", seq=seq, indices=tuple(sorted(indices)))
    tags = tags_of("bucket", batch)
    assert tuple(machine_of(tags, at) for at in range(len(indices))) == batch.names
    assert machine_of(tags, len(indices)) == ""


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"pool": "gpu", "commit": "7"},
        {"pool": "gpu", "commit": "x", "machines": "0"},
        {"pool": "gpu", "commit": "7", "machines": "0-"},
        {"pool": "gpu", "commit": "7", "machines": "5-1"},
        {"pool": "gpu", "commit": "7", "machines": "0-999999999999999"},
    ],
)
def test_tags_of_others_give_no_machine(tags: dict[str, str]) -> None:
    """Tags that this program does not write name no machine."""
    assert machine_of(tags, 0) == ""


def test_a_scattered_batch_is_refused() -> None:
    """A batch that no tag can hold is refused before anything is created."""
    batch = Batch(pool="gpu", seq=7, indices=tuple(range(0, 400, 2)))
    with pytest.raises(ProviderRefusedError, match="too scattered"):
        tags_of("bucket", batch)


def test_a_token_is_of_its_batch() -> None:
    """A token stays when machines leave the batch, and differs by zone, commit and bucket."""
    whole = token_of("bucket", machines(0, 1, 2))
    assert len(whole) <= 64
    assert token_of("bucket", machines(1, 2)) == whole
    others = [
        token_of("bucket", machines(0, 1, 2, zone="us-east-1b")),
        token_of("other", machines(0, 1, 2)),
        token_of("bucket", machines(0, 1, 2, batch="g2")),
        token_of("bucket", machines(0, batch="")),
        token_of("bucket", machines(1, batch="")),
    ]
    assert len({whole, *others}) == 6


@pytest.mark.parametrize("indices", [(4,), (0, 1, 2), (1, 3, 4, 5, 9)])
def test_an_instance_learns_its_name(indices: tuple[int, ...]) -> None:
    """The command for the start-up script prints each machine's own name."""
    batch = batch_of(machines(*indices))
    for at, name in enumerate(batch.names):
        instance = SimpleNamespace(
            id=f"i-{at}",
            ami_launch_index=at,
            instance_type="p5.48xlarge",
            lifecycle=None,
            placement=SimpleNamespace(zone="us-east-1a"),
        )
        with metadata_of(instance) as metadata:
            printed = subprocess.run(
                ["sh", "-ec", f'name=$({batch.name_command}); printf %s "$name"'],
                env={
                    "PATH": "/usr/bin:/bin",
                    "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{metadata.endpoint}/",
                },
                capture_output=True,
                check=True,
                text=True,
            )
        assert printed.stdout == name


def test_a_name_that_no_commit_allocates_is_refused() -> None:
    """Only names of machines become instances."""
    with pytest.raises(ProviderRefusedError, match="is not the name of a machine"):
        batch_of([Machine(name="gpu", pool="gpu")])
