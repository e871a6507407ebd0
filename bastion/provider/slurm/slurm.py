"""
Nodes of a Slurm cluster; each is a machine for as long as a Slurm job has it.

* A machine is found by the name of its job, which names the bucket, the pool and the machine. Its
  batch script is the start-up script, which runs as long as its agent does.
* A zone is a partition. A pending job waits, in the words of Slurm; once the pool's patience is
  over, the next partition is tried.
* An ended job is gone if its node answers Slurm, which has ended all processes there. If the node
  has failed or does not answer, processes may continue. Such a machine is not listed. It is gone
  when the permit of its keeper has expired, as with your own hosts, and keeps working if the agent
  still reaches the bucket.

Source: Slurm's manual, squeue(1), "JOB STATE CODES" and "JOB REASON CODES"; sinfo(1), "NODE STATE
CODES".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import NamedTuple

from bastion.errors import ProviderError, ProviderRefusedError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.machine_name import parse_machine
from bastion.provider.port import Listed, State
from bastion.provider.slurm.programs import Programs
from bastion.provider.slurm.slurm_request import batch_script, job_name, prefix, submission

_STATES: Mapping[str, State] = {
    "PENDING": "waiting",
    "REQUEUE_HOLD": "waiting",
    "SPECIAL_EXIT": "waiting",
    "REQUEUED": "waiting",
    "REQUEUE_FED": "waiting",
    "RESV_DEL_HOLD": "waiting",
    "CONFIGURING": "creating",
    "POWER_UP_NODE": "creating",
    "RUNNING": "running",
    "RESIZING": "running",
    "SIGNALING": "running",
    "SUSPENDED": "stopped",
    "STOPPED": "stopped",
    "COMPLETING": "deleting",
    "STAGE_OUT": "deleting",
}
"""All other states are final."""
_UNPROVED = ("NODE_FAIL", "BOOT_FAIL")
"""Final states that say nothing about the processes."""
_SILENT = ("down", "unknown", "fail", "reboot")
"""Prefixes of the states of nodes that do not answer; a state that ends in `*` is another."""
_FORMAT = "%i|%T|%P|%V|%N|%r|%j"
"""ID, state, partition, submission time, nodes, reason, name: only a name can contain a bar."""

Script = Callable[[Pool, str], str]
"""Writes a pool's start-up script, given a shell command that prints a machine's name."""


class _Shown(NamedTuple):
    """A Slurm job that is or was a machine."""

    job: str
    state: str
    partition: str
    submitted: str
    nodes: str
    reason: str
    machine: str

    @property
    def is_over(self) -> bool:
        return self.state not in _STATES

    @property
    def was_refused(self) -> bool:
        """Whether it was refused when it was submitted: Slurm lists those for some minutes."""
        return self.state == "FAILED" and not self.nodes

    def is_proved(self, answering: Set[str]) -> bool:
        """Whether nothing of it is running: it never had a node, or its node is in `answering`."""
        return not self.nodes or (self.state not in _UNPROVED and self.nodes in answering)


class SlurmProvider:
    """
    The nodes of one pool.

    Args:
        pool: Its zones are partitions.
        bucket: The bucket's own name.
        script: Writes the start-up script of a machine.
        programs: Slurm's own; by default those of this host.
    """

    def __init__(
        self, pool: Pool, *, bucket: str, script: Script, programs: Programs | None = None
    ) -> None:
        self._pool = pool
        self._bucket = bucket
        self._script = script
        self._programs = programs or Programs(os.environ)
        self._user = f"--user={os.getuid()}"

    @property
    def vouches(self) -> bool:
        """See the port: processes on a node that Slurm cannot reach may continue."""
        return False

    def list(self) -> tuple[Listed, ...]:
        """See the port; of two jobs with one name the second never starts, and is cancelled."""
        found: dict[str, _Shown] = {}
        spare = []
        for shown in self._shown():
            first = found.setdefault(shown.machine, shown)
            if first is not shown and not shown.is_over:
                spare.append(shown.job)
        if spare:
            self._programs.run("scancel", *spare)
        answering = self._answering({each.nodes for each in found.values() if each.is_over})
        return tuple(
            self._listed(shown)
            for _, shown in sorted(found.items())
            if not shown.is_over or shown.is_proved(answering)
        )

    def _answering(self, nodes: Set[str]) -> Set[str]:
        """Return those of `nodes` that answer Slurm; without nodes no call is made."""
        named = nodes - {""}
        if not named:
            return named
        asked = f"--nodes={','.join(sorted(named))}"
        said = self._programs.run("sinfo", "--noheader", "--Node", asked, "--format=%N|%T")
        states = dict(line.split("|", 1) for line in said.splitlines())
        return {
            node
            for node in named & states.keys()
            if not states[node].startswith(_SILENT) and not states[node].strip().endswith("*")
        }

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port; a suspended job is resumed, if this user may do that."""
        there = {shown.machine: shown for shown in self._shown()}
        for machine in machines:
            shown = there.get(machine.name)
            if shown is None:
                start = self._script(pool, f"printf %s {machine.name}")
                text = batch_script(pool, machine.name, start, bucket=self._bucket)
                command = submission(pool, machine, bucket=self._bucket)
                self._programs.run(*command, text=text, about=_partition(machine.zone))
            elif _STATES.get(shown.state) == "stopped":
                with suppress(ProviderRefusedError):  # an operator must do it
                    self._programs.run("scontrol", "resume", shown.job)

    def delete(self, name: str) -> None:
        """See the port; every job with the name is cancelled, even if it is not listed yet."""
        self._programs.run("scancel", self._user, f"--name={job_name(self._bucket, name)}")

    def lacking(self) -> tuple[str, ...]:
        """See `TellsRights`: Slurm checks a submission, and creates nothing."""
        found = []
        for zone in self._pool.zones:
            machine = Machine(name=f"{self._pool.name}-0-0", pool=self._pool.name, zone=zone)
            command = submission(self._pool, machine, bucket=self._bucket)
            try:
                self._programs.run(
                    *command, "--test-only", text="#!/bin/sh\n", about=_partition(zone)
                )
            except ProviderUnavailableError:
                raise
            except ProviderError as error:
                found.append(error.message)
        return tuple(dict.fromkeys(found))

    def _shown(self) -> Iterator[_Shown]:
        """Yield the jobs of this pool, in the order in which they were submitted."""
        said = self._programs.run(
            "squeue", "--noheader", "--states=all", self._user, f"--format={_FORMAT}"
        )
        found = []
        for line in said.splitlines():
            *fields, name = line.split("|", 6)
            machine = name.removeprefix(prefix(self._bucket))
            if machine == name or parse_machine(machine, self._pool.name) is None:
                continue  # another job of this user; its name may even contain newlines
            shown = _Shown._make([*fields, machine])
            if not shown.was_refused:
                found.append(shown)
        yield from sorted(found, key=lambda shown: int(shown.job))

    def _listed(self, shown: _Shown) -> Listed:
        state = _STATES.get(shown.state, "gone")
        text = ""
        if state == "waiting":
            text = f"Slurm: {shown.reason}"
        elif state in ("stopped", "gone"):
            reason = "" if shown.reason in ("", "None") else f" ({shown.reason})"
            text = f"Slurm: {shown.state}{reason}"
        return Listed(
            name=shown.machine,
            pool=self._pool.name,
            state=state,
            zone=shown.partition if shown.partition in self._pool.zones else "",
            text=text,
            created_at=shown.submitted,
        )


def _partition(zone: str) -> str:
    return f"partition {zone}" if zone else ""
