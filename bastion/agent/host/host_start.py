"""The start of one host: its claim, its set-up, the barrier, and the request to the keeper."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bastion.agent.host.claim import (
    NotOurs,
    OlderLife,
    Over,
    Standing,
    Taken,
    asked,
    mine,
    take,
)
from bastion.agent.host.context import Surroundings
from bastion.agent.host.stage import Progress, Stage
from bastion.agent.host.start_request import attempt_start, holding_of, planned
from bastion.agent.keeper.port import AttemptStart, KeeperError
from bastion.agent.report.setup_progress import SetUpProgress
from bastion.agent.setup.code_setup import SetUpError
from bastion.agent.setup.gpu_types import as_driver_counts
from bastion.agent.setup.prepare import Prepared, is_quick, prepare, with_python
from bastion.errors import BastionError, ConflictError, SpecError, StoreError
from bastion.job import End
from bastion.machine import Start
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports import facts
from bastion.records.reports.facts import HostFact
from bastion.records.reports.registers import ClaimRegister, GoRegister
from bastion.spec.launch import Job, Launch


class HostStart:
    """
    The start of one host.

    Args:
        of: The host, called `key` on its machine.
        start: The instruction to start it; None if only a stop is known: then the claim is looked
            up and never taken.
        host: Receives every result.
    """

    def __init__(
        self, of: HostFact, key: str, context: Surroundings, start: Start | None, host: Progress
    ) -> None:
        self._of = of
        self._key = key
        self._context = context
        self._start = start and replace(
            start,
            devices=as_driver_counts(start.devices, dict(context.settings.resources.items())),
        )
        self._host = host
        self._claim = mine(context.settings, life=context.keeper.life, port=0)
        self._register: ClaimRegister | None = None
        self._planned: tuple[Launch, Job] | None = None
        self._prepared: Prepared | None = None
        self._progress = SetUpProgress(of, context.bells)
        self._go: GoRegister | None = None
        self._next_go_at = 0.0

    def limit(self, max_runtime_s: float) -> None:
        """Set its time limit, counted from its start."""
        if self._start is not None:
            self._start = replace(self._start, max_runtime_s=max_runtime_s)

    # 1. The claim.

    def settle_claim(self, now: float) -> None:
        """Win the claim, or look up its owner."""
        context = self._context
        errand = f"claim {self._key}"
        if not context.errands.is_free(errand, now):
            return
        if self._start is not None:
            if self._register is None:
                self._claim = mine(context.settings, life=context.keeper.life, port=context.port())
                self._register = ClaimRegister(write_id=context.nonce(), claim=self._claim)
            launch_of = partial(context.launches.launch, self._start.project, self._start.launch)
            work = partial(take, context.store, self._of, self._register, launch_of)
        else:
            work = partial(asked, context.store, self._of, self._claim)
        context.errands.send(errand, work, self._claimed, now=now, otherwise=self._unreadable)

    def _unreadable(self, error: Exception) -> None:
        """Leave it: the owner of the claim is unknown, so this agent must not write its `end`."""
        self._context.say(f"{self._key} does not run here: {error!r}")
        self._host.leave()

    def _claimed(self, standing: Standing) -> None:
        match standing:
            case NotOurs(why=why, is_settled=is_settled):
                self._context.say(f"{self._key} does not run here: {why}")
                self._host.leave(is_settled=is_settled)
            case Over(end=end):
                self._host.conclude(end)
                self._host.end_exists(end)
            case OlderLife():
                detail = "an older life of its machine held its claim when it ended"
                self._host.conclude(End(kind="lost", detail=detail))
            case Taken(claim=claim, launch=launch):
                self._claim = claim
                self._context.bells.ring(facts.Claimed(of=self._of, claim=claim))
                self._plan(launch)

    # 2. The set-up.

    def _plan(self, launch: Launch | BastionError) -> None:
        if self._host.conclude_if_stopped():
            return
        if isinstance(launch, BastionError):
            self._host.fail(launch)
            return
        assert self._start is not None
        try:
            self._planned = planned(launch, self._start)
            self._host.stage = Stage.SETTING_UP
        except SpecError as error:
            self._host.conclude(End(kind="setup_failed", detail="; ".join(error.problems)))

    def set_up(self, now: float) -> None:
        """Prepare folders, code, secrets and environment, as far as possible now."""
        if self._host.conclude_if_stopped():
            return
        context, fail = self._context, self._host.fail
        self._progress.turn(now)
        if self._prepared is not None:
            self._progress.now_does("building its Python environment")
            made = with_python(
                context, self._of, self._prepared, now=now, otherwise=fail, waits=self._waits
            )
            self._is_set_up(made)
            return
        assert self._planned is not None
        assert self._start is not None
        launch, job = self._planned
        work = partial(self._prepare, launch, job, self._start)
        if is_quick(launch, job, self._of):
            try:
                self._is_set_up(work())
            except BastionError as error:
                fail(error)
        else:
            errand = f"set up {self._key}"
            context.errands.send(
                errand, work, self._is_set_up, now=now, otherwise=self._not_set_up, is_slow=True
            )
        if self._host.stage is Stage.AT_BARRIER:
            self.pass_barrier(now)

    def _prepare(self, launch: Launch, job: Job, start: Start) -> Prepared:
        """Prepare it, in a lane; its users are told if this machine cannot read the bucket."""

        def tell(text: str) -> None:
            if not self._waits():
                raise SetUpError(f"its host ended while it was {text}")
            self._progress.now_does(text)

        try:
            return prepare(self._context, self._key, self._of, launch, job, start, tell)
        except StoreError as error:
            self._progress.now_does(f"its machine cannot read the bucket, and tries again: {error}")
            raise

    def _waits(self) -> bool:
        """Whether its setup is still needed; called on other threads."""
        return self._host.stage is Stage.SETTING_UP

    def _is_set_up(self, prepared: Prepared) -> None:
        if self._host.stage is Stage.SETTING_UP:
            self._prepared = prepared
            if prepared.is_whole:
                self._host.stage = Stage.AT_BARRIER
        self._clear_if_late()

    def _not_set_up(self, error: Exception) -> None:
        self._host.fail(error)
        self._clear_if_late()

    def _clear_if_late(self) -> None:
        """Delete the files of a set-up that continued after its host had ended."""
        if self._host.stage in (Stage.ENDING, Stage.GONE):
            self._context.home.forget_secrets(self._key)
            self._context.home.leave(self._key, is_saved=False)

    # 3. The barrier.

    def pass_barrier(self, now: float) -> None:
        """Request its start from the keeper, once the barrier is open or if there is none."""
        if self._host.conclude_if_stopped():
            return
        assert self._start is not None
        if not self._start.barrier or self._go is not None:
            self._request(now)
        elif now >= self._next_go_at:
            self._next_go_at = now + self._context.settings.tempo.busy_s
            of = self._of
            key = layout.go(of.project, of.job, of.attempt, of.nonce)
            work = partial(look, self._context.store, key, GoRegister)
            self._context.errands.send(
                f"go {self._key}", work, self._saw_go, now=now, otherwise=self._no_go, is_look=True
            )

    def _saw_go(self, go: GoRegister | None) -> None:
        if go is None or self._host.stage is not Stage.AT_BARRIER:
            return
        if go.addresses:
            self._go = go
        else:
            detail = "the start of its gang was revoked"
            self._host.conclude(End(kind="revoked", detail=detail))

    def _no_go(self, error: Exception) -> None:
        """End it as lost: no host can decode the barrier, and the next attempt has its own."""
        self._host.conclude(End(kind="lost", detail=str(error)))

    # 4. The request.

    def _request(self, now: float) -> None:
        assert self._start is not None
        assert self._planned is not None
        assert self._prepared is not None
        go = self._go
        attempt = attempt_start(
            self._key,
            self._start,
            self._planned,
            self._prepared,
            self._context.settings,
            addresses=go.addresses if go else (self._claim.address,),
            port=go.port if go else self._claim.port,
        )
        self._context.requests.start(attempt, partial(self._answered, attempt, now))

    def _answered(self, attempt: AttemptStart, now: float, refused: BastionError | None) -> None:
        match refused:
            case None:
                self._started(attempt, now)
            case ConflictError():
                self._host.adopt_started(now)
            case KeeperError():
                self._host.fail(refused)
            case _:
                raise refused

    def _started(self, attempt: AttemptStart, now: float) -> None:
        assert self._start is not None
        # From here on the keeper has the secrets.
        self._prepared = None
        self._host.run(
            len(attempt.processes),
            now,
            is_new=True,
            secrets=attempt.secrets,
            attempt=attempt,
            holding=holding_of(self._start, in_containers=bool(attempt.undo)),
        )
