"""
What links an EC2 instance to a machine: tags, its place in its batch, and a token. Pure.

All instances of one request carry the same tags, so a tag names the machines of the whole batch.
The launch index of an instance says which of them it is. Nothing has to be written afterwards.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from bastion.errors import ProviderRefusedError
from bastion.machine import Machine
from bastion.machine_name import MachineName, parse_machine
from bastion.value import value

BUCKET, POOL, COMMIT, MACHINES = "bastion", "pool", "commit", "machines"
KEYS = (BUCKET, POOL, COMMIT, MACHINES)
"""Keys of the tags."""
MAX_TAG = 256
"""Longest value of a tag. Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html."""
_RANGE = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?", re.ASCII)
_MOST = 10_000
"""More machines than any request creates: a tag that names more is not ours."""

_METADATA = (
    # Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
    "imds=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254};"
    ' imds="${imds%/}/latest";'
    ' ask() { curl -fsS --retry 9 --retry-connrefused --max-time 20 "$@"; };'
    ' key=$(ask -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 300" "$imds/api/token") &&'
    ' at=$(ask -H "X-aws-ec2-metadata-token: $key" "$imds/meta-data/ami-launch-index") &&'
)


@value
class Batch:
    """Machines of one pool that one commit allocated and one request creates."""

    pool: str
    seq: int
    indices: tuple[int, ...]
    """In ascending order; the launch index of an instance is a place in it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the machines, by launch index."""
        return tuple(self.name(index) for index in self.indices)

    def name(self, index: int) -> str:
        """The name of one machine."""
        return str(MachineName(pool=self.pool, seq=self.seq, index=index))

    @property
    def name_command(self) -> str:
        """A shell command that prints the name of the machine on which it runs."""
        if len(self.indices) == 1:
            return f"printf %s {shlex.quote(self.names[0])}"
        places = " ".join(
            str(first) if first == last else f"$(seq {first} {last})"
            for first, last in _ranges(self.indices)
        )
        stem = shlex.quote(f"{self.pool}-{self.seq}")
        return f'{{ {_METADATA} set -- {places} && shift "$at" && printf %s-%s {stem} "$1"; }}'


def batch_of(machines: Sequence[Machine]) -> Batch:
    """
    Return the batch that consists of `machines`; there is at least one.

    Raises:
        ProviderRefusedError: A name is not one that a commit allocates.
    """
    found = [(machine, parse_machine(machine.name, machine.pool)) for machine in machines]
    for machine, name in found:
        if name is None:
            raise ProviderRefusedError(f"{machine.name!r} is not the name of a machine")
    named = [name for _, name in found if name is not None]
    return Batch(
        pool=named[0].pool, seq=named[0].seq, indices=tuple(sorted(name.index for name in named))
    )


def token_of(bucket: str, machines: Sequence[Machine]) -> str:
    """
    Return the client token of the request for `machines`, at most 64 characters.

    A batch of which some machines are no longer wanted has the same token. EC2 then refuses the
    different count. That is correct, because the first request may have been carried out.
    """
    first = machines[0]
    batch = batch_of(machines)
    which = f"batch {first.batch}" if first.batch else first.name
    said = "\0".join((bucket, batch.pool, str(batch.seq), first.zone, which))
    return f"bastion-{hashlib.sha256(said.encode()).hexdigest()[:48]}"


def tags_of(bucket: str, batch: Batch) -> dict[str, str]:
    """
    Return the tags by which the instances of `batch` are found again.

    Raises:
        ProviderRefusedError: The batch has too many gaps to fit into a tag.
    """
    ranges = ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _ranges(batch.indices)
    )
    if len(ranges) > MAX_TAG:
        raise ProviderRefusedError(f"machines {ranges[:60]}... are too scattered for one request")
    alone = f"-{batch.indices[0]}" if len(batch.indices) == 1 else ""
    return {
        "Name": f"bastion-{bucket}-{batch.pool}-{batch.seq}{alone}"[:MAX_TAG],
        BUCKET: bucket,
        POOL: batch.pool,
        COMMIT: str(batch.seq),
        MACHINES: ranges,
    }


def machine_of(tags: Mapping[str, str], launch_index: int) -> str:
    """Return the name of the machine that an instance is; empty if its tags are not ours."""
    seq, indices = tags.get(COMMIT, ""), _indices(tags.get(MACHINES, ""))
    if not re.fullmatch(r"\d{1,15}", seq, re.ASCII) or not 0 <= launch_index < len(indices):
        return ""
    batch = Batch(pool=tags.get(POOL, ""), seq=int(seq), indices=indices)
    return batch.name(indices[launch_index])


def _indices(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return ()
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < _MOST:
            return ()
        found += range(first, last + 1)
    return tuple(found)


def _ranges(indices: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the first and last number of each run of consecutive numbers."""
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and found[-1][1] == index - 1:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return tuple(found)
