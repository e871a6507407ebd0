"""An admin's requests about machines; they need the right to write into the inbox of admins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from bastion.client.change.requests import Requests
from bastion.client.look.published import Published
from bastion.client.look.views import MachineView
from bastion.client.patience import Outage
from bastion.clock import Clock
from bastion.errors import NotFoundError, RefusedError, StoreError, TimedOutError
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports.registers import CheckOutcome
from bastion.records.requests.answer import Answer
from bastion.records.requests.machine_request import (
    NO_SUCH_MACHINE,
    CheckRequest,
    DrainRequest,
    MachinesRequest,
    WarmRequest,
)
from bastion.records.requests.request import AdminBody
from bastion.spec.values.quantity import seconds_of, text_of_seconds
from bastion.store.port import ObjectStore

ANSWER_TIMEOUT_S = 60.0
"""Twelve turns of an idle bastion on a cloud store (5 s each)."""
CHECK_S: Mapping[str, float] = {"hello": 120.0, "burn": 900.0}
"""An agent reads its instructions every few seconds; a pool's load takes up to ten minutes."""


class Operator:
    """
    Changes of machines.

    Args:
        requests: The admin's requests.
        published: The published views.
        store: The bucket, read without retries.
        clock: Used for waiting.
        poll_s: Seconds between two polls of a machine.
        outage: Records whether the store answers.
    """

    def __init__(
        self,
        requests: Requests,
        published: Published,
        store: ObjectStore,
        clock: Clock,
        *,
        poll_s: float,
        outage: Outage,
    ) -> None:
        self._requests = requests
        self._store = store
        self._published = published
        self._clock = clock
        self._poll_s = poll_s
        self._outage = outage

    def cordon(self, *machines: str, reason: str = "") -> None:
        """
        Start no new jobs on `machines`; running jobs continue.

        Raises:
            NotFoundError: There is no such machine; nothing was changed.
            RefusedError: One is being deleted; nothing was changed.
            TimedOutError: No answer yet; the request is in the inbox and will be processed.
            InDoubtError: The request may have arrived; a retry is harmless.
            StoreError: The bucket is unreachable, or the right to write into the inbox of admins is
                missing.
        """
        self._ask("cordon", MachinesRequest(machines=machines, reason=reason))

    def uncordon(self, *machines: str) -> None:
        """
        Let jobs start on `machines` again, and cancel their drain.

        Raises:
            BastionError: As for `cordon`.
        """
        self._ask("uncordon", MachinesRequest(machines=machines))

    def drain(self, *machines: str, reason: str = "", deadline: float | str | None = None) -> Drain:
        """
        Start no new jobs on `machines` and let running jobs finish; return a drain to wait for.

        Settings of an earlier drain of these machines stay unless this call replaces them.

        Args:
            machines: Their names.
            reason: Shown to everyone whose job waits for them.
            deadline: Counted from now; jobs still running then are preempted, with their notice.

        Raises:
            BastionError: As for `cordon`; SpecError for a deadline that is not allowed.
        """
        deadline_s = None if deadline is None else seconds_of("deadline", deadline)
        body = DrainRequest(machines=machines, reason=reason, deadline_s=deadline_s)
        since = self._ask("drain", body).at
        return Drain(
            machines,
            self._published,
            self._clock,
            since=since,
            poll_s=self._poll_s,
            outage=self._outage,
        )

    def warm(self, pool: str, machines: int, duration: float | str = "8h") -> None:
        """
        Keep at least `machines` machines of a pool, in use or idle, until `duration` is over.

        In a pool with slices, slices are counted. 0 cancels it.

        Raises:
            BastionError: As for `cordon`; SpecError for a number or time that is not allowed.
        """
        for_s = seconds_of("duration", duration)
        self._ask("warm", WarmRequest(pool=pool, machines=machines, for_s=for_s))

    def check(
        self,
        machine: str,
        by: Literal["hello", "burn"] = "hello",
        *,
        on_begun: Callable[[], None] = lambda: None,
    ) -> CheckOutcome:
        """
        Have a machine's agent report its state, or load its devices too; return the result.

        The bastion cordons a machine that fails under the load, even if the caller stops waiting.

        Args:
            machine: Its name.
            by: `hello` disturbs no job. `burn` needs a machine without running jobs.
            on_begun: Called once the bastion has sent the agent the instruction.

        Raises:
            BastionError: As for `cordon`; also TimedOutError if the agent does not answer.
        """
        answer = self._ask("check", CheckRequest(machine=machine, by=by))
        on_begun()
        key = layout.check(machine, answer.ulid)
        patience_s = CHECK_S[by]
        until = self._clock.monotonic() + patience_s
        while self._clock.monotonic() < until:
            try:
                found = look(self._store, key, CheckOutcome)
                self._outage.over()
            except StoreError as error:
                self._outage.met(error)
            else:
                if found is not None:
                    return found
            self._clock.sleep(self._poll_s)
        raise TimedOutError(
            f"{machine}: its agent has not answered within {text_of_seconds(patience_s)}",
            hint="bastion machines -o wide shows when it was last heard from",
        )

    def _ask(self, verb: str, body: AdminBody) -> Answer:
        try:
            return self._requests.ask(layout.ADMIN, verb, body, timeout_s=ANSWER_TIMEOUT_S)
        except RefusedError as error:
            if f": {NO_SUCH_MACHINE}, " in error.message:
                raise NotFoundError(error.message) from None
            raise


class Drain:
    """
    A drain that the bastion has accepted.

    Args:
        machines: Their names.
        published: The published views.
        clock: Used for waiting.
        since: Earlier views do not include the drain.
        poll_s: Seconds between two polls.
        outage: Records whether the store answers.
    """

    def __init__(
        self,
        machines: Sequence[str],
        published: Published,
        clock: Clock,
        *,
        since: float,
        poll_s: float,
        outage: Outage,
    ) -> None:
        self._machines = machines
        self._published = published
        self._clock = clock
        self._since = since
        self._poll_s = poll_s
        self._outage = outage

    def over(
        self, on_look: Callable[[Sequence[MachineView]], None] = lambda _: None
    ) -> Iterator[tuple[str, str]]:
        """
        Wait until every machine is drained; yield each one's name and result.

        The result is `drained`, `gone` if the provider has deleted the machine, or `uncordoned`. At
        each poll, `on_look` is called with the machines on which jobs still run.
        """
        waited = dict.fromkeys(self._machines)
        while waited:
            for name, seen in self._look(tuple(waited)).items():
                became = _became(seen)
                if became:
                    del waited[name]
                    yield name, became
                elif seen is not None:
                    on_look((seen,))
            if waited:
                self._clock.sleep(self._poll_s)

    def _look(self, names: Sequence[str]) -> dict[str, MachineView | None]:
        """Return the published machines, None for one that is gone; empty if the view is old."""
        try:
            view = self._published.pools()
        except StoreError as error:
            self._outage.met(error)
            return {}
        self._outage.over()
        if view.as_of < self._since:
            return {}
        seen = {each.name: each for each in view.machines}
        return {name: seen.get(name) for name in names}


def _became(machine: MachineView | None) -> str:
    if machine is None or machine.phase == "deleting":
        return "gone"
    if not machine.draining:
        return "uncordoned"
    return "drained" if machine.drained_at is not None else ""
