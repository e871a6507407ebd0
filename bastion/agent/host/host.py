"""
One host of one attempt, from the instruction that names it until nothing of it is left to do.

    CLAIMING ─> SETTING_UP ─> AT_BARRIER ─> RUNNING ─> HOLDING ─> ENDING ─> GONE
        └────────────┴────────────┴────────────┴──────────────────┘
    ASKING ───────────────────────────────────────────────────────┘   a stop for a host nobody knows

Rules:

* `advance` is level-triggered: at every turn a host asks for what its stage needs; errands that are
  under way are not sent twice.
* Everything after the start can be read off the key and the keeper's records, so an agent that
  starts anew adopts what it finds and needs no file of its own.
* A stop that arrives before the keeper was told to start wins: the host ends without running, as
  `exited` with no codes and the notice's reason. A revoked barrier ends it as `revoked`.
* A host that failed and is to be looked at writes no `end` before its time is over or a stop comes,
  so its devices are used until then.
* The keeper forgets a host only when its `end`, its logs and the bell that says so are in the
  bucket.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from bastion.agent.attempt_key import host_of, key_of
from bastion.agent.host.claim import (
    NotOurs,
    OlderLife,
    Over,
    Standing,
    Taken,
    asked,
    end_key,
    mine,
    take,
)
from bastion.agent.host.context import Surroundings
from bastion.agent.host.marks import Marking
from bastion.agent.host.output_saving import Saving
from bastion.agent.host.stage import Stage
from bastion.agent.host.start_request import attempt_start, planned
from bastion.agent.host.unstarted import end_without_start
from bastion.agent.keeper.port import (
    LAST_LINES_BYTES,
    AttemptState,
    Ended,
    ExitRecord,
    KeeperError,
    KeeperGoneError,
    Running,
)
from bastion.agent.machine.machine_fault import is_machine_fault
from bastion.agent.report.end_record import ended_so, held_s
from bastion.agent.report.log_shipping import Shipping
from bastion.agent.report.redaction import Redaction
from bastion.agent.report.setup_progress import SetUpProgress
from bastion.agent.setup.prepare import Prepared, is_quick, prepare, with_python
from bastion.errors import BastionError, ConflictError, NotFoundError, SpecError
from bastion.job import End
from bastion.machine import Start, StopHost
from bastion.records import facts, layout
from bastion.records.facts import HostFact
from bastion.records.register import Lost, Won, look, win
from bastion.records.registers import ClaimRegister, EndRegister, GoRegister
from bastion.spec.launch import Job, Launch

_SURPRISED_S = 10.0
"""Until a host that met an internal error is tried again."""


class Host:
    """
    One host of one attempt on this machine; begin it with `told`, `asked` or `adopted`.

    All methods are called on the agent's thread.
    """

    def __init__(self, of: HostFact, around: Surroundings, stage: Stage) -> None:
        self.of = of
        self.key = key_of(of)
        self.stage = stage
        self.wake_at = 0.0
        """When `advance` should be called next, if nothing happens before."""
        self._around = around
        self._start: Start | None = None
        self._stop: StopHost | None = None
        self._claim = mine(around.settings, life=around.keeper.life, port=0)
        self._register: ClaimRegister | None = None
        self._planned: tuple[Launch, Job] | None = None
        self._prepared: Prepared | None = None
        self._progress = SetUpProgress(of, around.bells)
        self._go: GoRegister | None = None
        self._next_go_at = 0.0
        self._is_in_keeper = False
        self._shipping: Shipping | None = None
        self._has_secrets = False
        self._follow_until = 0.0
        self._saving = Saving(of, self.key, around)
        self._marking = Marking(of, self.key, around, self._saving)
        self._hold_until = 0.0
        self._end: EndRegister | None = None
        self._end_stands = False
        self._drained: int | None = None
        self._surprise = ""

    @staticmethod
    def told(of: HostFact, start: Start, around: Surroundings) -> Host:
        """A host that an instruction starts."""
        host = Host(of, around, Stage.CLAIMING)
        host._start = start
        return host

    @staticmethod
    def asked(of: HostFact, stop: StopHost, around: Surroundings) -> Host:
        """A host that an instruction stops, of which neither agent nor keeper knows."""
        host = Host(of, around, Stage.ASKING)
        host._stop = stop
        return host

    @staticmethod
    def adopted(state: AttemptState, around: Surroundings, now: float) -> Host | None:
        """A host that the keeper holds already; None when it is none of ours."""
        of = host_of(state.key if isinstance(state, Running) else state.record.key)
        if of is None:
            return None
        host = Host(of, around, Stage.RUNNING)
        host._adopt(state, now)
        return host

    def refuse(self, why: str) -> None:
        """Never start it here: it ends as lost."""
        self._conclude(End(kind="lost", detail=f"it was not started: {why}"))

    def advance(self, now: float) -> None:
        """Go on as far as possible, and say when to come again."""
        self.wake_at = now
        match self.stage:
            case Stage.CLAIMING | Stage.ASKING:
                self._settle_claim(now)
            case Stage.SETTING_UP:
                self._set_up(now)
            case Stage.AT_BARRIER:
                self._look_for_go(now)
            case Stage.RUNNING:
                self._watch(now)
            case Stage.HOLDING:
                self._hold(now)
            case Stage.ENDING:
                self._finish(now)
            case Stage.GONE:
                pass

    def stop(self, stop: StopHost, now: float) -> None:
        """Stop it, however far it is; what has ended stays as it is."""
        self.wake_at = 0.0
        self._stop = stop
        if self.stage is not Stage.RUNNING:
            return
        try:
            self._around.keeper.stop(self.key, reason=stop.reason, by=stop.by, grace_s=stop.grace_s)
        except NotFoundError:
            return
        self._saving.ask()
        if self._shipping is not None:
            self._shipping.hurry(now, for_s=stop.grace_s)

    def limit(self, max_runtime_s: float) -> None:
        """It may run that long from its start, however far it is."""
        if self._start is not None:
            self._start = replace(self._start, max_runtime_s=max_runtime_s)
        if self.stage is Stage.RUNNING:
            with suppress(NotFoundError):
                self._around.keeper.limit(self.key, max_runtime_s=max_runtime_s)

    def follow(self, until: float, now: float) -> None:
        """Somebody reads its logs until then."""
        self.wake_at = 0.0
        self._follow_until = until
        if self._shipping is not None:
            self._shipping.hurry(now, for_s=until - now)

    def grew(self, process: int, size_bytes: int, now: float) -> None:
        """A process has written up to `size_bytes`."""
        if self._shipping is not None and self.stage is Stage.RUNNING:
            self._shipping.grew(process, size_bytes, now)
            self.wake_at = 0.0

    def went_idle(self, text: str) -> None:
        """The keeper has told that it shows no sign of life, and goes on; or, empty, shows one."""
        if self.stage is Stage.RUNNING and self._shipping is not None:
            self._around.bells.ring(facts.Idle(of=self.of, text=text))

    def exited(self, record: ExitRecord, now: float) -> None:
        """The keeper has told how it ended."""
        if self.stage is not Stage.RUNNING or self._shipping is None:
            return
        self._shipping.close(record.processes)
        if self._has_secrets and record.first_failed is not None:
            said = self._shipping.last_lines(record.first_failed, LAST_LINES_BYTES)
            record = replace(record, last_lines=said)
        home = self._around.home
        marks = home.marks(self.key)
        self._marking.end(marks)
        end = ended_so(record, marks, home.word(self.key))
        self._end = EndRegister(write_id=self._around.nonce(), end=end)
        self._saving.ask()
        self.wake_at = 0.0
        hold_s = held_s(record, end, life=self._around.keeper.life, now=now)
        if hold_s > 0 and self._stop is None:
            self.stage = Stage.HOLDING
            self._hold_until = now + hold_s
            folder = self._around.home.folders(self.key).code
            self._around.bells.ring(facts.Held(of=self.of, for_s=hold_s, folder=folder, end=end))
        else:
            self._let_go()

    def _let_go(self) -> None:
        """Nothing of it is wanted any more but its end."""
        self.stage = Stage.ENDING
        self._around.home.forget_secrets(self.key)

    def surprise(self, error: Exception, now: float) -> None:
        """What nobody expected: it must harm this host alone, and not lose its end."""
        text = f"internal error: {error!r}"
        if self._surprise != text:
            self._around.say(f"{self.key}: {text}")
            self._surprise = text
        if self._is_in_keeper or self.stage is Stage.ENDING:
            self.wake_at = now + _SURPRISED_S
        else:
            self._conclude(end_without_start(error))

    # How it begins.

    def _settle_claim(self, now: float) -> None:
        around = self._around
        errand = f"claim {self.key}"
        if not around.errands.is_free(errand, now):
            return
        if self._start is not None:
            if self._register is None:
                self._claim = mine(around.settings, life=around.keeper.life, port=around.port())
                self._register = ClaimRegister(write_id=around.nonce(), claim=self._claim)
            launch_of = partial(around.launches.launch, self._start.project, self._start.launch)
            work = partial(take, around.store, self.of, self._register, launch_of)
        else:
            work = partial(asked, around.store, self.of, self._claim)
        around.errands.send(errand, work, self._stands, now=now, otherwise=self._is_unclaimed)

    def _is_unclaimed(self, error: Exception) -> None:
        """Nobody can say whose claim it is: whoever has it, this agent must not write its end."""
        self._around.say(f"{self.key} does not run here: {error!r}")
        self._be_gone()

    def _stands(self, stands: Standing) -> None:
        match stands:
            case NotOurs(why=why, is_settled=is_settled):
                self._around.say(f"{self.key} does not run here: {why}")
                self._be_gone(is_settled=is_settled)
            case Over(end=end):
                self._conclude(end)
                self._stood(end)
            case OlderLife():
                detail = "an older life of its machine held its claim when it ended"
                self._conclude(End(kind="lost", detail=detail))
            case Taken(claim=claim, launch=launch):
                self._claim = claim
                self._around.bells.ring(facts.Claimed(of=self.of, claim=claim))
                self._plan(launch)

    def _plan(self, launch: Launch | str) -> None:
        if self._is_stopped():
            return
        assert self._start is not None
        try:
            self._planned = planned(launch, self._start)
            self.stage = Stage.SETTING_UP
        except SpecError as error:
            self._conclude(End(kind="setup_failed", detail="; ".join(error.problems)))

    def _set_up(self, now: float) -> None:
        if self._is_stopped():
            return
        self._progress.turn(now)
        if self._prepared is not None:
            prepared, cannot = self._prepared, self._cannot
            self._progress.now_does("its Python environment is built")
            self._is_set_up(with_python(self._around, self.of, prepared, now=now, otherwise=cannot))
            return
        assert self._planned is not None
        assert self._start is not None
        around, (launch, job) = self._around, self._planned
        tell = self._progress.now_does
        work = partial(prepare, around, self.key, self.of, launch, job, self._start, tell)
        if is_quick(launch, job, self.of):
            try:
                self._is_set_up(work())
            except BastionError as error:
                self._cannot(error)
        else:
            errand = f"set up {self.key}"
            around.errands.send(
                errand, work, self._is_set_up, now=now, otherwise=self._cannot, is_long=True
            )
        if self.stage is Stage.AT_BARRIER:
            self._look_for_go(now)

    def _is_set_up(self, prepared: Prepared) -> None:
        if self.stage is Stage.SETTING_UP:
            self._prepared = prepared
            if prepared.is_whole:
                self.stage = Stage.AT_BARRIER

    def _look_for_go(self, now: float) -> None:
        if self._is_stopped():
            return
        assert self._start is not None
        if not self._start.barrier or self._go is not None:
            self._run(now)
        elif now >= self._next_go_at:
            self._next_go_at = now + self._around.settings.tempo.busy_s
            key = layout.go(self.of.project, self.of.job, self.of.attempt, self.of.nonce)
            work = partial(look, self._around.store, key, GoRegister)
            self._around.errands.send(
                f"go {self.key}", work, self._saw_go, now=now, otherwise=self._no_go, is_look=True
            )

    def _saw_go(self, go: GoRegister | None) -> None:
        if go is None or self.stage is not Stage.AT_BARRIER:
            return
        if go.addresses:
            self._go = go
        else:
            self._conclude(End(kind="revoked", detail="the start of its gang was revoked"))

    def _no_go(self, error: Exception) -> None:
        """No host can read it: no fault of the job's, whose next attempt has a `go` of its own."""
        self._conclude(End(kind="lost", detail=str(error)))

    def _run(self, now: float) -> None:
        assert self._start is not None
        assert self._planned is not None
        assert self._prepared is not None
        go = self._go
        attempt = attempt_start(
            self.key,
            self._start,
            self._planned,
            self._prepared,
            self._around.settings,
            addresses=go.addresses if go else (self._claim.address,),
            port=go.port if go else self._claim.port,
        )
        try:
            self._around.keeper.start(attempt)
        except ConflictError:
            self._adopt_again(now)
            return
        except KeeperGoneError:
            raise
        except KeeperError as error:
            self._cannot(error)
            return
        # From here they are the keeper's.
        self._prepared = None
        self._runs(len(attempt.processes), now, is_new=True, secrets=attempt.secrets)

    def _adopt_again(self, now: float) -> None:
        """An earlier agent had started it, and died before it could say so."""
        for state in self._around.keeper.attempts():
            if self.key == (state.key if isinstance(state, Running) else state.record.key):
                self._adopt(state, now)
                return
        self._around.say(f"{self.key} was started and forgotten before: nothing is done")
        self._be_gone()

    def _adopt(self, state: AttemptState, now: float) -> None:
        match state:
            case Running(started_at=started_at, log_sizes_bytes=sizes, secrets=secrets, idle=idle):
                self._runs(len(sizes), started_at, is_new=False, secrets=secrets)
                self.went_idle(idle)
                for process, size in enumerate(sizes):
                    self.grew(process, size, now)
                if self._stop is not None:
                    self.stop(self._stop, now)
            case Ended(record=record, secrets=secrets):
                processes = len(record.processes)
                self._runs(processes, record.started_at, is_new=False, secrets=secrets)
                self.exited(record, now)

    def _runs(
        self, processes: int, started_at: float, *, is_new: bool, secrets: tuple[str, ...] | None
    ) -> None:
        around = self._around
        self._is_in_keeper = True
        self._has_secrets = bool(secrets)
        self._shipping = Shipping(
            around.store,
            around.keeper,
            around.errands,
            around.settings.tempo.logs,
            key=self.key,
            of=self.of,
            processes=processes,
            is_new=is_new,
            started_at=started_at,
            redaction=Redaction(secrets),
        )
        if self._follow_until > started_at:
            self._shipping.hurry(started_at, for_s=self._follow_until - started_at)
        around.bells.ring(facts.Started(of=self.of))
        around.instructions.settle(self.key)
        self.stage = Stage.RUNNING

    # While it runs.

    def _watch(self, now: float) -> None:
        assert self._shipping is not None
        look_at = self._marking.turn(now)
        self._saving.turn(now)
        self.wake_at = min(look_at, self._shipping.turn(now))

    def _hold(self, now: float) -> None:
        """Its processes are dead, its devices are kept; its logs and output need not wait."""
        assert self._shipping is not None
        if self._stop is not None or now >= self._hold_until:
            self._let_go()
            self._finish(now)
            return
        self._saving.turn(now)
        self.wake_at = min(self._hold_until, self._shipping.turn(now))

    # How it ends.

    def _is_stopped(self) -> bool:
        """End it if a stop came before it was started."""
        if self._stop is None:
            return False
        self._conclude(End(kind="exited", notice=self._stop.reason))
        return True

    def _cannot(self, error: Exception) -> None:
        """It cannot start: for what it says that it should not, or for a fault of its machine."""
        if isinstance(error, BastionError) or is_machine_fault(error):
            self._conclude(end_without_start(error))
        else:
            self.surprise(error, 0.0)

    def _conclude(self, end: End) -> None:
        if self.stage in (Stage.ENDING, Stage.GONE):
            return
        self.wake_at = 0.0
        self._end = EndRegister(write_id=self._around.nonce(), end=end)
        self._let_go()

    def _finish(self, now: float) -> None:
        around = self._around
        assert self._end is not None
        if not self._end_stands:
            work = partial(win, around.store, end_key(self.of, around.settings.machine), self._end)
            around.errands.send(
                f"end {self.key}", work, self._wrote_end, now=now, otherwise=self._give_up
            )
        if self._shipping is not None:
            self._shipping.turn(now)
            if self._shipping.broken and self._end_stands:
                self._give_up(BastionError(self._shipping.broken))
                return
        self._saving.turn(now)
        if not self._end_stands or not self._saving.is_done:
            return
        if self._drained is None:
            if self._shipping is None or self._shipping.is_complete:
                self._drained = around.bells.ring(facts.Drained(of=self.of))
        elif around.bells.has_landed(self._drained):
            if self._is_in_keeper:
                around.keeper.forget(self.key)
            around.home.leave(self.key)
            self._be_gone()

    def _wrote_end(self, outcome: Won[EndRegister] | Lost[EndRegister]) -> None:
        self._stood(outcome.record.end)

    def _stood(self, end: End) -> None:
        """`end` stands, whoever wrote it: the devices are free."""
        self._end_stands = True
        self._around.bells.ring(facts.Ended(of=self.of, end=end))

    def _give_up(self, error: Exception) -> None:
        """Leave it as it is, with its spool, for a person to look at."""
        self._around.say(f"{self.key} is left as it is: {error}")
        self._be_gone()

    def _be_gone(self, *, is_settled: bool = True) -> None:
        if is_settled:
            self._around.instructions.settle(self.key)
        self.stage = Stage.GONE
