"""
A real leader over a real adapter: the machines are created by real code, the agents simulated.

At every delete, the stage asserts that nothing live is deleted. At every turn, it records what the
job's users are told. A bastion that is killed in the middle of a call is followed by another one,
which knows only the bucket.
"""

from __future__ import annotations

import json
from dataclasses import replace

from bastion.job import Attempt, End
from bastion.machine import MachinePhase
from bastion.records.keys import layout
from bastion.records.reports.facts import Heartbeat
from tests.contracts.faults.watched import KilledError, Watched
from tests.contracts.provider_place import STEP_S, Place
from tests.rigs.leader import PACE, Agent, Rig

TURN_S = 10.0
QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 64
[project_membership]
blue = ["ann"]
[project_resources.blue]
h100 = 1.0
[scheduler]
min_runtime_s = 0
grace_s = 5
max_grace_s = 60
"""


class Stage:
    """
    One pool of a place, and a bastion.

    Args:
        pool: Lines of the pool's table in addition to its provider and resources.
    """

    def __init__(self, place: Place, pool: str = "") -> None:
        zones = [zone for zone in place.zones if zone]
        names = json.dumps(zones)
        is_own = place.pool.machines_per_zone > 0
        kind = "ssh" if is_own else "slurm" if place.pool.permit_s else "fake"
        where = f"\nhosts = {names}" if is_own else f"\nzones = {names}" if zones else ""
        config = (
            f'[pools.here]\nprovider = "{kind}"\nresources = {{ h100 = 8 }}'
            f'\nmax_machines = 4\nidle_timeout = "30s"\nboot = 20{where}\n{pool}'
        )
        self.place = place
        self.shown: dict[str, str] = {}
        """The newest list: name -> state."""
        self.said: list[str] = []
        """What users were told of the job, each text once."""
        self.mutes = 0
        """How many of the next machines boot without an agent."""
        self.mute: list[str] = []
        """The machines that did."""
        self.dead: set[str] = set()
        """Machines whose agents have died, and are expected again once lists have shown that."""
        self.stopped: set[str] = set()
        self.greets_unlisted = False
        """Whether agents greet before a list shows their machines."""
        self.deleted: list[str] = []
        self.lives = 1
        """How many bastions there have been."""
        self.watched = Watched(place, self)
        pace = replace(PACE, listing_s=TURN_S)
        self.rig = Rig(config=config, quota=QUOTA, pace=pace, provider=lambda pool: self.watched)
        self.turn(2)

    def submit(self, replicas: int = 1) -> str:
        """Submit a job of whole machines; return its id."""
        asked = self.rig.launch("train", h100=8, replicas=replicas)
        self.turn()
        (job,) = self.rig.answer(asked).jobs
        self.job = job
        return job

    def turn(self, times: int = 1) -> None:
        """Take turns; after each one the agents act, and time passes for everything."""
        for _ in range(times):
            try:
                self.rig.leader.turn()
            except KilledError:
                self.lives += 1
                self.rig.leader = self.rig.take()
            self._act()
            self._note()
            self.rig.clock.advance(TURN_S)
            for _ in range(int(TURN_S / STEP_S)):
                self.place.let_time_pass()

    def until_running(self, turns: int = 40) -> None:
        """Take turns until the job runs."""
        self._until(lambda: self.rig.phase(self.job) == "running", turns)

    def until_attempt(self, number: int, turns: int = 60) -> None:
        """Take turns until another attempt runs."""
        self._until(
            lambda: (
                self.rig.phase(self.job) == "running" and self.rig.job(self.job).attempts == number
            ),
            turns,
        )

    def until_deleting(self, turns: int = 20) -> None:
        """Take turns until the machines are to be deleted."""
        self._until(lambda: bool(self.deleted), turns)

    def until_gone(self, turns: int = 60) -> None:
        """Take turns until the job has succeeded."""
        self._until(lambda: self.rig.phase(self.job) == "gone", turns)
        result = self.rig.result(self.job)
        assert result is not None
        assert str(result.outcome) == "succeeded"

    def until_over(self, turns: int = 60) -> None:
        """Take turns until inventory equals intent, that is, until no machine is left anywhere."""
        self.until_gone(turns)
        self._until(lambda: not self.rig.root.machines and not self.place.states(), turns)

    def end(self) -> None:
        """Let the job end successfully, and all of its machines with it."""
        self.finish()
        self.until_over()

    def finish(self) -> None:
        """Let every process end, and report it."""
        for replica, agent in enumerate(self._agents()):
            agent.end(self.job, replica=replica)

    def finish_unheard(self) -> None:
        """Let the process end and its machine die before any bell can report it."""
        (agent,) = self._agents()
        end = End(kind="exited", codes=(0,), sizes=(0,))
        agent.end_as(agent.of(self.job), end, rings=False)
        agent.is_deaf = True

    def falls_silent(self) -> None:
        """Let the agent of the job's machine stop ringing, while its machine lives."""
        agent = self.rig.agents[self.machine]
        agent.heartbeat_s = 300.0
        agent.ring(agent.hello())
        self.turn()
        agent.is_deaf = True

    def agent_dies(self) -> None:
        """Kill the agent of the job's machine; a new one starts once a list shows it."""
        name = self.machine
        self.rig.agents[name].is_deaf = True
        self.dead.add(name)
        self.place.kill_agent(name)

    def kill(self, operation: str, when: str) -> None:
        """Let the bastion die at its next call of that kind; never if `when` is empty."""
        self.watched.kill = (operation, when) if when else None

    @property
    def machine(self) -> str:
        """Return the single machine of the job."""
        (placed,) = self._attempt.placement
        return placed.hosts[0].machine

    @property
    def _attempt(self) -> Attempt:
        attempt = self.rig.job(self.job).attempt
        assert attempt is not None
        return attempt

    def _agents(self) -> list[Agent]:
        return [self.rig.agents[placed.hosts[0].machine] for placed in self._attempt.placement]

    def is_told(self, *words: str) -> bool:
        """Whether some text that users got contains all of these words."""
        return any(all(word in text for word in words) for text in self.said)

    def check_delete(self, name: str) -> None:
        """Assert that no machine is deleted that root keeps, or on which a live job computes."""
        machine = self.rig.root.machines.get(name)
        assert machine is None or machine.phase is MachinePhase.DELETING, f"{name} is kept"
        agent = self.rig.agents.get(name)
        is_alive = agent is not None and not agent.is_deaf
        assert not (is_alive and name in self._computing()), f"a job computes on {name}"
        self.deleted.append(name)

    def _computing(self) -> set[str]:
        return {
            place.machine
            for job in self.rig.root.jobs.values()
            if job.attempt is not None
            for _, _, place, state in job.attempt.each_host()
            if state.claim is not None and state.end is None
        }

    def _until(self, is_so: object, turns: int) -> None:
        assert callable(is_so)
        for _ in range(turns):
            if is_so():
                return
            self.turn()
        assert is_so(), (self.said, self.shown, list(self.rig.root.machines.values()))

    def _act(self) -> None:
        for name in self.rig.root.machines:
            runs = self.shown.get(name) == "running" or (self.greets_unlisted and self._is_made())
            if not runs or name in self.rig.agents or name in self.mute:
                continue
            if self.mutes:
                self.mutes -= 1
                self.mute.append(name)
            else:
                self.rig.greet(name, h100=8)
        for name, agent in self.rig.agents.items():
            if agent.is_deaf and name in self.dead and self._is_back(name):
                self.dead.discard(name)
                agent.is_deaf = False
                agent.live_again()
            if not agent.is_deaf and self.place.pool.permit_s:
                agent.ring(Heartbeat())
            agent.poll()

    def _is_back(self, name: str) -> bool:
        """Whether a machine whose agent had died was listed as stopped, and runs again."""
        state = self.shown.get(name)
        if state != "running":
            self.stopped.add(name)
        return state == "running" and name in self.stopped

    def _is_made(self) -> bool:
        world = self.place.world
        return world is not None and world.made() > 0

    def _note(self) -> None:
        view = self.rig.bucket.read(layout.view("queue"))
        assert view is not None
        for row in json.loads(view.data)["jobs"]:
            if row["text"] not in self.said:
                self.said.append(row["text"])
