"""
`Monitors`: the monitors of all admitted jobs, each called only when it may have a result.

A monitor is a pure function of its job, the state of the machines and the time. It is not called
again while all three mean the same: a turn that changed ten jobs of a thousand calls ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from bastion.job import JobRecord, Phase
from bastion.lifecycle import DrainEnded
from bastion.machine import MachinePhase
from bastion.monitor import Action, Options, due, quiet_until, watch
from bastion.records.root import Root
from bastion.service.act.machines import LONGEST_GAP_S
from bastion.service.draft.launch_failures import end_failed_launches, failing_launches
from bastion.service.draft.machines.health import cordon_suspect
from bastion.service.draft.root_draft import Draft

_Standing: TypeAlias = tuple[Options, frozenset[tuple[str, MachinePhase, int]]]
"""All that a monitor reads besides its job: the options; (name, phase, life) of each machine."""


class Monitors:
    """
    The monitors of one leader's jobs.

    Args:
        guarded: Does a piece of work with the given name, and reports its failure.
    """

    def __init__(self, guarded: Callable[..., object]) -> None:
        self._guarded = guarded
        self._standing: _Standing | None = None
        self._quiet: dict[str, tuple[JobRecord, float]] = {}
        """Jobs without results, and the time until which time alone changes nothing about that."""
        self._names: frozenset[str] = frozenset()
        self._steady_since = 0.0
        """The time, in the store's seconds, since which commits have had no gap."""
        self._undue: dict[str, JobRecord] = {}
        """Jobs that required no write, as long as the same machines exist."""

    def watch(self, draft: Draft, options: Options) -> None:
        """Apply the events that follow for every admitted job of `draft`, until none follows."""
        if draft.now - draft.root.now > LONGEST_GAP_S:
            self._steady_since = draft.now
        self._guarded("failed launches", end_failed_launches, draft, options)
        failing = failing_launches(draft)
        machines = draft.machines.values()
        standing = options, frozenset((each.name, each.phase, each.life) for each in machines)
        if standing != self._standing:
            self._standing = standing
            self._quiet.clear()
        for job in draft.working_jobs():
            quiet = self._quiet.get(job.id)
            failed = failing.get(job.launch, "")
            if quiet is not None and quiet[0] is job and draft.now < quiet[1] and not failed:
                continue
            self._guarded(f"monitor of {job.id}", self._watch_one, draft, job.id, options, failed)
        if len(self._quiet) > 2 * len(draft.working) + 1_000:
            self._quiet.clear()

    def _watch_one(self, draft: Draft, job_id: str, options: Options, failed: str) -> None:
        self._quiet.pop(job_id, None)
        sibling = failed if failed != job_id else ""
        while (job := draft.jobs[job_id]).phase not in (Phase.QUEUED, Phase.DONE):
            watched = watch(
                job,
                draft.machines,
                draft.now,
                options=options,
                failed_sibling=sibling,
                steady_since=self._steady_since,
            )
            if not watched.events:
                break
            for event in watched.events:
                draft.apply(job_id, event)
                if isinstance(event, DrainEnded):
                    cordon_suspect(draft, job_id)
            for machine, instruction in watched.instructions:
                draft.instruct(machine, instruction)
        self._quiet[job_id] = job, quiet_until(job, options)

    def act(
        self, root: Root, working: Iterable[str], do: Callable[[JobRecord, Action], object]
    ) -> None:
        """Call `do` with each write that committed state requires for the `working` jobs."""
        if root.machines.keys() != self._names:
            self._names = frozenset(root.machines)
            self._undue.clear()
        known, self._undue = self._undue, {}
        for job_id in working:
            job = root.jobs[job_id]
            if known.get(job_id) is job:
                self._undue[job_id] = job
            else:
                self._guarded(f"monitor of {job_id}", self._act_for, root, job, do)

    def _act_for(
        self, root: Root, job: JobRecord, do: Callable[[JobRecord, Action], object]
    ) -> None:
        actions = due(job, root.machines)
        for action in actions:
            do(job, action)
        if not actions:
            self._undue[job.id] = job
