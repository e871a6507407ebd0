"""
A service in which much happens, for the record of it: the real leader on a virtual clock.

Users submit, hold, release and cancel; an admin edits the quota file and closes a machine; jobs are
preempted. A *varied* one also has priorities, jobs that do not borrow, notices and limits of their
own, gangs of replicas, planned starts, another total, usage that fades, and agents that are late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from bastion.job import JobRecord, Phase
from bastion.records.keys import layout
from bastion.records.requests.machine_request import MachinesRequest
from tests.rigs.leader import PACE, QUOTA, Rig

USERS = (("ann", "blue"), ("ben", "blue"), ("cat", "red"))
VARIED = f"{QUOTA}plan_after_s = 40\nborrow_slice_s = 120\nusage_half_life_s = 200\n"
CORDONS = {150: "cordon", 170: "uncordon"}
TURNS = 1000


def edits_of(text: str) -> Mapping[int, str]:
    """Edits of the quota file `text`, by turn."""
    quarter = text.replace("h100 = 0.5", "h100 = 0.25", 1)
    return {
        120: quarter.replace("h100 = 0.5", "h100 = 0.75", 1),
        250: text.replace("min_runtime_s = 0", "min_runtime_s = 20"),
    }


class Users:
    """What users and an admin do, and how long jobs run."""

    def __init__(self, seed: int, *, varied: bool = False) -> None:
        self.random = Random(seed)
        self.varied = varied
        text = VARIED if varied else QUOTA
        self.files = dict(edits_of(text))
        if varied:
            self.files[200] = text.replace("h100 = 16", "h100 = 12")
        pace = replace(PACE, view_s=1e9)  # nothing reads what it would publish
        self.rig = Rig(quota=text, pace=pace)
        self.left: dict[str, int] = {}
        self.asked = 0

    def live(self) -> Rig:
        """Go on until every job has ended."""
        for turn in range(TURNS):
            if turn > 320 and not self.rig.root.jobs:
                return self.rig
            if text := self.files.get(turn):
                self.rig.put(layout.QUOTA, text)
            if verb := CORDONS.get(turn):
                machine = min(self.rig.root.machines)
                self.rig.ask("root", layout.ADMIN, verb, MachinesRequest(machines=(machine,)))
            if turn < 320 and self.random.random() < 0.12:
                self._submit()
            if self.varied:
                self._dawdle()
            for job in list(self.rig.root.jobs.values()):
                self._change(job, is_calm=turn >= 320)
                self._work(job)
            self.rig.turn()
        raise AssertionError("jobs are left")

    def _submit(self) -> None:
        user, project = self.random.choice(USERS)
        h100 = self.random.choice((1, 2, 4, 8))
        more = self._more(h100) if self.varied else {}
        self.rig.launch(f"job-{self.asked}", user=user, project=project, h100=h100, **more)
        self.asked += 1

    def _more(self, h100: int) -> dict[str, Any]:
        """What a job asks for besides."""
        chance, more = self.random, dict[str, Any]()
        more["priority"] = chance.choice((2, 3, 3, 3, 4))
        if chance.random() < 0.4:
            more["grace"] = chance.choice(("2s", "20s", "40s"))
        if chance.random() < 0.4:
            more["max_runtime"] = chance.choice(("100s", "200s"))
        if h100 <= 2 and chance.random() < 0.3:
            more["borrow"] = False
        elif h100 == 4 and chance.random() < 0.4:
            more["replicas"] = chance.choice((2, 3))
        return more

    def _change(self, job: JobRecord, *, is_calm: bool) -> None:
        verb = ""
        if job.held:
            verb = "release" if is_calm or self.random.random() < 0.05 else ""
        elif job.phase is Phase.QUEUED and not is_calm and self.random.random() < 0.01:
            verb = "hold"
        elif not is_calm and self.random.random() < 0.002:
            verb = "cancel"
        if verb:
            self.rig.verb(verb, job.id, user=job.user, project=job.project)

    def _dawdle(self) -> None:
        """Agents that are busy start and stop nothing for a while."""
        for agent in self.rig.agents.values():
            agent.is_deaf = self.random.random() < (0.9 if agent.is_deaf else 0.02)

    def _work(self, job: JobRecord) -> None:
        attempt = job.attempt
        may_end = (Phase.RUNNING, Phase.STOPPING) if self.varied else (Phase.RUNNING,)
        if attempt is None or attempt.started_at is None or job.phase not in may_end:
            return
        self.left[job.id] = self.left.get(job.id, self.random.randint(10, 90)) - 1
        for replica in range(len(attempt.placement)):
            if self.left[job.id] <= -3 * replica:  # one after the other
                agent = self.rig.agent_of(job.id, replica=replica)
                agent.end(job.id, replica=replica)
