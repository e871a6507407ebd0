"""
The agent of one machine: instructions in; claims, ends, logs and facts out.

The agent has no state of its own: processes belong to the keeper, and decisions are in the bucket.
A turn does everything that can be done now and never waits; slow calls are errands in a lane. All
parts are passed to the constructor, so the simulation runs this same class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import assert_never

from bastion.agent.attempt_key import command_key, command_of, host_named, key_of
from bastion.agent.begin.begin import NOTHING_BEGUN, Begun
from bastion.agent.begin.cleaning import Cleaning
from bastion.agent.begin.health_watch import HealthWatch
from bastion.agent.begin.upgrades import Upgrades
from bastion.agent.check.checks import Checks
from bastion.agent.cloud.metadata import Metadata
from bastion.agent.cloud.removed_bucket import RemovedBucket
from bastion.agent.cloud.watch import CloudWatch
from bastion.agent.containers.engine import Engine
from bastion.agent.containers.watch import EngineWatch
from bastion.agent.errands import Errands, LongLanes
from bastion.agent.home import Home
from bastion.agent.host.claim import Launches
from bastion.agent.host.command.commands import Commands
from bastion.agent.host.command.long_command import LongCommands
from bastion.agent.host.context import KeeperAndSpool, KeeperRequests, Surroundings
from bastion.agent.host.host import Host
from bastion.agent.host.stage import Stage
from bastion.agent.instructions import Instructions
from bastion.agent.keeper.port import (
    Exited,
    KeeperError,
    KeeperEvent,
    KeeperGoneError,
    Running,
)
from bastion.agent.keeper_life import is_there
from bastion.agent.report.bells import Bells
from bastion.agent.settings import AgentSettings
from bastion.agent.usage.port import Sampler
from bastion.agent.usage.watch import UsageWatch
from bastion.clock import Clock
from bastion.job import StopReason
from bastion.lane import InlineLane, Lane
from bastion.machine import (
    Check,
    Exec,
    Follow,
    Instruction,
    Leave,
    SetLimit,
    Start,
    StopHost,
    Upgrade,
)
from bastion.records.keys import layout
from bastion.records.reports.facts import Heartbeat, Hello
from bastion.spec.where import CONTAINERS
from bastion.store.folder.watch import Pause, Watch
from bastion.store.port import ObjectStore

_LIVES_S = 30.0
"""Between two checks for a newer life: one read of an object that rarely exists."""

_GREET_AGAIN_S = (60.0, 180.0, 420.0, 900.0)
"""
Times after a hello at which it is repeated. A store may list a bell but refuse to return it, and a
machine without a hello is deleted after ten minutes at the earliest (`bastion.pool.LEAST_BOOT_S`).
"""

_QUIET_S = 20.0
"""After this long without news, polls are at their slowest."""

_TURN_S = 0.2
"""How long hosts are advanced before facts are sent: calls to a folder finish within a turn."""

_HOSTS_S = 0.1
"""Longest wait while a host retries something, or waits for long work."""

_WAIT_S = 0.02
"""Longest wait for an errand, since the keeper may send events in the meantime."""


class Agent:
    """
    One agent over one life of the keeper; a new life needs a new agent.

    Args:
        store: The bucket.
        keeper: The running keeper of this machine, and its spool.
        clock: Time on this machine; `monotonic` is the keeper's clock too.
        settings: The settings of this machine.
        lane: Makes calls to the store.
        nonces: Returns a fresh `write_id` each time.
        home: The machine's folders.
        ports: Returns a free port.
        say: Writes one line to the agent's log.
        long_lane: Does work that may take minutes; None: it is done immediately.
        engine: Runs containers on this machine; None: there are none.
        metadata: The metadata server of this machine; None if it has none.
        begun: What was done and found before the greeting, if a start-up script ran.
        watch: Signals that there may be new instructions.
        look_lane: Makes the polls; None: `lane` does.
        sampler: Samples the use of this machine; None: it is not sampled.
    """

    def __init__(
        self,
        store: ObjectStore,
        keeper: KeeperAndSpool,
        clock: Clock,
        settings: AgentSettings,
        lane: Lane,
        nonces: Callable[[], str],
        *,
        home: Home,
        ports: Callable[[], int],
        say: Callable[[str], None],
        long_lane: Lane | LongLanes | None = None,
        engine: Engine | None = None,
        metadata: Metadata | None = None,
        begun: Begun = NOTHING_BEGUN,
        watch: Watch | None = None,
        look_lane: Lane | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self._watcher = watch or Pause(clock)
        self._removed = RemovedBucket(self._watcher, keeper, say)
        self._store, self._keeper, self._clock = store, keeper, clock
        self._settings, self._home, self._say = settings, home, say
        self._lane = lane
        retry_s = settings.tempo.retry_s
        self._errands = Errands(
            lane, long_lane or InlineLane(), retry_s=retry_s, say=say, look_lane=look_lane
        )
        machine, life = settings.machine, keeper.life
        self._bells = self._bells_of(life)
        self._instructions = Instructions(
            store, self._errands, home, machine=machine, life=life, say=say
        )
        self._usage = UsageWatch(
            store, self._errands, keeper, settings, clock, say, home.cache.parent, sampler=sampler
        )
        self._around = Surroundings(
            store=store,
            keeper=keeper,
            requests=KeeperRequests(keeper),
            errands=self._errands,
            bells=self._bells,
            instructions=self._instructions,
            home=home,
            settings=settings,
            launches=Launches(store),
            nonce=nonces,
            port=ports,
            moment=lambda: int(clock.wall() * 1000),
            say=say,
            series=self._usage.series_of,
        )
        self._hosts: dict[str, Host] = {}
        self._refused: list[Commands] = []  # for hosts that are not here
        self._events, self._is_leaving = list[KeeperEvent](), False
        self._engine = self._watch(engine) if engine is not None else None
        self._began_at = clock.monotonic()
        self._permit_sent_at = self._lives_at = 0.0
        self._cleaning, self._steps = Cleaning(self._around, clock), begun.steps
        self._greet_at = self._greet(self._began_at)
        self._health = HealthWatch(self._around, clock, now=self._began_at, begun=begun)
        self._usage.tell_foreign = self._health.see_foreign
        self._cloud = CloudWatch(metadata, self._around, clock) if metadata is not None else None
        self._checks = Checks(self._around, clock, self._health.pass_burn)
        self._upgrades = Upgrades(self._around)
        self._long_commands = LongCommands(self._around, self._execute)
        self._adopt()

    def _bells_of(self, life: int) -> Bells:
        of, wall = self._settings.machine, self._clock.wall
        # Numbers exceed those of all earlier bells: a life rings fewer than one bell per second.
        made = partial(Bells, anew=lambda: int(wall()), say=self._say)
        return made(self._store, self._errands, self._home, machine=of, life=life)

    @property
    def is_finished(self) -> bool:
        """
        Whether it has nothing left to do after leaving, being overtaken or upgraded, or has no
        bucket.
        """
        is_ending = self._is_leaving or self._upgrades.is_ready
        return self._removed.is_due or (is_ending and not self._hosts and not self._refused)

    @property
    def is_upgraded(self) -> bool:
        """Whether it ends only to be replaced by an agent of another build."""
        return self._upgrades.is_ready and not self._is_leaving

    def turn(self) -> bool:
        """
        Do everything that can be done now; return whether anything changed.

        Raises:
            KeeperGoneError: The keeper has died: start a new life, with a new agent.
            HomeGoneError: The home was removed: nothing may be sent or started from here.
        """
        self._home.check()
        now = self._clock.monotonic()
        sent = self._errands.sent
        # 1. Finished errands.
        moved = self._errands.collect(now)
        # 2. The keeper's events.
        moved |= self._see_keeper(now)
        # 3. The bastion's instructions.
        if self._watcher.has_news():
            self._instructions.look_now()
        if self._bells.store_time is not None:
            pause_s = self._pause_s(now)
            self._instructions.turn(now, pause_s=pause_s, store_time=self._bells.store_time)
            moved |= self._errands.collect(now)  # a look into a folder is answered immediately
            for number, instruction, stale in self._instructions.take():
                self._try_to_obey(number, instruction, now, stale=stale)
        self._long_commands.turn(now)
        # 4. Every host advances as far as it can.
        moved |= self._advance_hosts(now)
        self._around.requests.send(self._hosts, now)
        for commands in self._refused:
            commands.turn(now)
        self._refused = [commands for commands in self._refused if not commands.is_done]
        # 5. New facts are sent.
        self._bells.turn(now)
        # 6. Housekeeping.
        self._checks.turn(now)
        self._upgrades.turn(now)
        if self._health.turn(now):
            self._cleaning.is_due = True
        self._removed.turn(now)
        self._usage.turn(now, self._hosts)
        self._watch_cloud(now)
        self._renew_permit()
        self._beat(now)
        self._look_for_lives(now)
        self._cleaning.turn(now, self._hosts, is_full=bool(self._health.unwell))
        self._keep_greeting(now)
        return moved or self._errands.sent != sent

    def run(self) -> None:
        """
        Take turns until finished.

        Raises:
            KeeperGoneError: The keeper has died.
            HomeGoneError: The home was removed.
        """
        while not self.is_finished:
            if self.turn():
                continue
            if self._errands.is_calling():
                self._lane.wait(_WAIT_S)
            else:
                self._events += self._keeper.poll(self._wait_s(self._clock.monotonic()))

    def abandon(self) -> None:
        """Let its set-ups end at their next step: another agent takes its hosts over."""
        for host in self._hosts.values():
            host.stage = Stage.GONE

    def _watch(self, engine: Engine) -> EngineWatch:
        home = self._settings.home
        return EngineWatch(engine, self._keeper, self._errands, home=home, say=self._say)

    def _keep_greeting(self, now: float) -> None:
        if self._engine is not None and self._engine.turn(now):
            self._greet_at = self._greet(now)
        elif self._greet_at and now >= self._greet_at[0]:
            self._greet_at = self._greet_at[1:]
            self._greet(now)

    def _greet(self, now: float) -> tuple[float, ...]:
        """Say hello; return when to repeat it."""
        settings = self._settings
        labels = settings.labels
        if self._engine is not None and not self._engine.is_well:
            labels = {**labels, CONTAINERS: "no"}
        self._bells.ring(
            Hello(
                resources=settings.resources,
                address=settings.address,
                hostname=settings.hostname,
                version=settings.version,
                build=settings.build,
                labels=labels,
                heartbeat_s=settings.heartbeat_s,
                steps=self._steps,
            )
        )
        self._steps = ()
        return tuple(now + after_s for after_s in _GREET_AGAIN_S)

    def _adopt(self) -> None:
        now = self._clock.monotonic()
        states = self._keeper.attempts()
        for state in states:
            host = Host.adopted(state, self._around, now)
            if host is not None:
                self._hosts[host.key] = host
        for state in states:
            host = self._beside(state.key if isinstance(state, Running) else state.record.key)
            if host is not None:
                host.commands.adopt(state)

    def _beside(self, key: str) -> Host | None:
        """Return the host beside which the command `key` runs, or None."""
        named = command_of(key)
        host = self._hosts.get(key_of(named[0])) if named is not None else None
        if host is not None:
            host.wake_at = 0.0
        return host

    def _see_keeper(self, now: float) -> bool:
        events = [*self._events, *self._keeper.poll(0.0)]
        self._events = []
        for event in events:
            key = event.record.key if isinstance(event, Exited) else event.key
            host = self._hosts.get(key) or self._beside(key)
            if host is None:
                continue
            if isinstance(event, Exited):
                # A fault such as a full disk is reported before its devices are free again.
                self._health.look_now()
            try:
                host.saw(event, now)
            except KeeperGoneError:
                raise
            except Exception as error:  # noqa: BLE001 - one bad host harms itself alone
                host.surprise(error, now)
        return bool(events)

    def _try_to_obey(
        self, number: int, instruction: Instruction, now: float, *, stale: str
    ) -> None:
        try:
            if isinstance(instruction, Start) and self._cloud is not None and self._cloud.is_taken:
                stale = (
                    stale or "arrived after the cloud announced that it will reclaim this machine"
                )
            if stale and isinstance(instruction, Start):
                self._start(number, instruction, stale)
            elif stale and isinstance(instruction, Exec):
                self._execute(number, instruction, now, f"instructions {number} {stale}")
            else:
                self._obey(number, instruction, now)
        except KeeperGoneError:
            raise
        except KeeperError as error:
            self._say(f"an instruction of batch {number} cannot be obeyed: {error}")

    def _obey(self, number: int, instruction: Instruction, now: float) -> None:
        match instruction:
            case Start():
                self._start(number, instruction)
            case StopHost():
                self._stop(number, instruction, now)
            case SetLimit():
                key = key_of(host_named(instruction))
                if key in self._hosts:
                    self._hosts[key].limit(instruction.max_runtime_s)
            case Follow(project=project, job=job, for_s=for_s):
                for host in self._hosts.values():
                    if (host.of.project, host.of.job) == (project, job):
                        host.follow(now + for_s, now)
            case Exec() as told:
                self._run_command(number, told, now)
            case Check():
                self._checks.begin(instruction, number, now, hosts=len(self._hosts))
            case Upgrade(build=build):
                self._upgrades.ask(build)
            case Leave():
                self._say("told to leave: nothing new is started here")
                self._is_leaving = True
            case _:
                assert_never(instruction)

    def _start(self, number: int, start: Start, refused: str = "") -> None:
        """Start a host, or report why not: otherwise the bastion would wait for it forever."""
        of = host_named(start)
        key = key_of(of)
        if key in self._hosts or (self._is_leaving and not refused):
            return
        self._instructions.begin(key, number)
        self._hosts[key] = Host.told(of, start, self._around)
        if refused:
            self._hosts[key].refuse(f"instructions {number} {refused}")

    def _run_command(self, number: int, told: Exec, now: float) -> None:
        if told.argv_digest:
            self._long_commands.read(number, told)
        else:
            self._execute(number, told, now)

    def _execute(self, number: int, told: Exec, now: float, problem: str = "") -> None:
        of = host_named(told)
        self._instructions.begin(command_key(key_of(of), told.id), number)
        host = self._hosts.get(key_of(of))
        if host is not None and not problem:
            host.execute(told, now)
            return
        commands = Commands(of, self._around)
        commands.refuse(told, problem or "this host no longer runs here", now)
        self._refused.append(commands)

    def _stop(self, number: int, stop: StopHost, now: float) -> None:
        of = host_named(stop)
        key = key_of(of)
        # A restarted agent must read the stop again: only it may end a held host.
        self._instructions.begin(key, number)
        if key in self._hosts:
            self._hosts[key].stop(stop, now)
            return
        self._hosts[key] = Host.asked(of, stop, self._around)

    def _advance_hosts(self, now: float) -> bool:
        """Advance every host that is due; return whether some must wait for the next turn."""
        for key, host in tuple(self._hosts.items()):
            if host.wake_at > now:
                continue
            try:
                host.advance(now)
            except KeeperGoneError:
                raise
            except Exception as error:  # noqa: BLE001 - one bad host harms itself alone
                host.surprise(error, now)
            del self._hosts[key]
            if host.stage is not Stage.GONE:
                self._hosts[key] = host
            if self._clock.monotonic() > now + _TURN_S:
                return True
        return False

    def _pause_s(self, now: float) -> float:
        """Return the time to the next poll: longer without news, or if a watch reports it."""
        tempo = self._settings.tempo
        longest_s = tempo.idle_s / 2 if self._hosts else tempo.idle_s
        is_told = self._watcher.fileno() >= 0
        quiet_s = _QUIET_S if is_told else now - max(self._instructions.found_at, self._began_at)
        return max(tempo.busy_s, min(longest_s, tempo.idle_s * quiet_s / _QUIET_S))

    def _wait_s(self, now: float) -> float:
        """Return how long nothing needs to be done unless the keeper sends an event."""
        next_at = min((host.wake_at for host in self._hosts.values()), default=math.inf)
        shortest_s = min(self._settings.tempo.busy_s, _HOSTS_S)
        return min(self._pause_s(now), max(shortest_s, next_at - now))

    def _renew_permit(self) -> None:
        # Only a written bell counts: an agent that can only read must not keep running forever.
        proof, permit_s = self._bells.rung_at, self._settings.permit_s
        if permit_s and proof is not None and proof > self._permit_sent_at + permit_s / 8:
            self._permit_sent_at = proof
            try:
                self._keeper.permit(valid_for_s=permit_s, sent_at=proof)
            except KeeperGoneError:
                raise
            except KeeperError as error:
                self._say(f"{error}; a new life follows")

    def _beat(self, now: float) -> None:
        pause_s, rung_at = self._settings.heartbeat_s, self._bells.rung_at
        if pause_s and rung_at is not None and now >= rung_at + pause_s and self._bells.is_silent:
            self._bells.ring(Heartbeat())

    def _look_for_lives(self, now: float) -> None:
        if now < self._lives_at or self._is_leaving:
            return
        self._lives_at = now + _LIVES_S
        # Life numbers have no gaps, and a list would cost a fleet more than all its other requests.
        key = layout.life(self._settings.machine, self._keeper.life + 1)
        self._errands.send("lives", partial(is_there, self._store, key), self._saw_life, now=now)

    def _saw_life(self, is_overtaken: bool) -> None:
        """End this life if there is a newer one: an older life must not run beside it."""
        if not is_overtaken:
            return
        now = self._clock.monotonic()
        self._say(f"life {self._keeper.life} is overtaken by a newer one: everything is stopped")
        self._is_leaving = True
        for host in self._hosts.values():
            host.stop_by_agent(StopReason.HOST_LOST, now)

    def _watch_cloud(self, now: float) -> None:
        """Stop hosts if the cloud takes this machine; end the machine if it is an orphan."""
        if self._cloud is None:
            return
        proofs = (self._began_at, self._bells.rung_at, self._instructions.proof_sent_at)
        reached_at = max(at for at in proofs if at is not None)
        self._cloud.turn(now, reached_at=reached_at, hosts=self._hosts)
