"""Everything that arrived, let into a draft: bells first, then requests in their order."""

from __future__ import annotations

from collections.abc import Iterable

from bastion.errors import BastionError, ConflictError, StoreError
from bastion.records import layout
from bastion.records.codec import encode
from bastion.records.register import create_same
from bastion.records.request import LaunchRequest
from bastion.scheduler.plan import Plan, Refuse, Wait
from bastion.scheduler.reason import NeverFits, text
from bastion.service.absorb import (
    Rules,
    absorb,
    answer_key,
    general_problems,
    refuse,
    spec_record,
)
from bastion.service.draft import Draft
from bastion.service.facts import apply_bell
from bastion.service.gather import Arrived, Rung
from bastion.service.journal import Journal
from bastion.store import ObjectStore


class Intake:
    """Lets requests and bells into a draft; one bad object harms only itself."""

    def __init__(self, store: ObjectStore, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    def ring(self, draft: Draft, rung: Rung) -> None:
        """Apply a bell; a bad one is only noted, for its registers tell the same."""
        ringing = rung.ringing
        if rung.bell is None:
            self._journal.note(f"bell set aside: {rung.problem}")
            return
        try:
            apply_bell(draft, ringing.machine, ringing.life, ringing.number, rung.bell)
        except BastionError as error:
            self._journal.problem(ringing.entry.key, error)
        except Exception as error:  # noqa: BLE001 - one bad bell must not stop the rest
            self._journal.failure(ringing.entry.key, error)

    def absorb(self, draft: Draft, arrived: Arrived, rules: Rules) -> bool:
        """
        Apply a request and answer it; False when it has to wait in the inbox.

        Raises:
            StoreError: Out of reach.
        """
        waiting = arrived.waiting
        if arrived.is_answered or answer_key(waiting) in draft.answers:
            return True
        problems = list(arrived.problems) or general_problems(waiting, rules)
        if problems or arrived.body is None:
            refuse(draft, waiting, problems)
            return True
        try:
            if not absorb(draft, waiting, arrived.body, rules, arrived.ended):
                return False
            self._write_spec(draft, arrived)
        except StoreError:
            raise
        except BastionError as error:
            refuse(draft, waiting, [error.message])
        except Exception as error:  # noqa: BLE001 - one bad request must not stop the rest
            self._journal.failure(waiting.entry.key, error)
            refuse(draft, waiting, [f"internal error: {error!r}; the bastion's log has more"])
        return True

    def judge(self, draft: Draft, absorbed: Iterable[Arrived], plan: Plan) -> bool:
        """
        Refuse the launches just let in that `plan` says can never, or not now, run.

        True when there were any: nothing may be done for them, so the plan is void.
        """
        refused = False
        for arrived in absorbed:
            answer = draft.new_answer(answer_key(arrived.waiting))
            if answer is None or not isinstance(arrived.body, LaunchRequest):
                continue
            problems = []
            for job_id in answer.jobs:
                match plan.verdicts.get(job_id):
                    case Refuse(reason=reason) | Wait(reason=NeverFits() as reason):
                        problems.append(f"{job_id}: {text(reason, draft.now)}")
            if problems:
                self._withdraw(draft, arrived, problems)
                refused = True
        return refused

    def _withdraw(self, draft: Draft, arrived: Arrived, problems: list[str]) -> None:
        for job_id in draft.answers[answer_key(arrived.waiting)].jobs:
            draft.withdraw(job_id)
        refuse(draft, arrived.waiting, problems)

    def _write_spec(self, draft: Draft, arrived: Arrived) -> None:
        """Write `spec.json` of an accepted launch; it stands before any commit names the launch."""
        answer = draft.answers.get(answer_key(arrived.waiting))
        if not isinstance(arrived.body, LaunchRequest) or answer is None or not answer.accepted:
            return
        record = spec_record(arrived.waiting, arrived.body)
        try:
            create_same(self._store, layout.spec(record.project, record.id), encode(record))
        except ConflictError:
            self._withdraw(draft, arrived, [f"there was a launch {record.id} before; submit again"])
