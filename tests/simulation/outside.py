"""Mutants without protection from the outside: missing folders, unreadable objects."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bastion.agent.home import Marks
from bastion.errors import StoreError, StoreRefusedError
from bastion.lifecycle import HostEnded
from bastion.machine import MachinePhase, Pool
from bastion.monitor import Options
from bastion.pool import Seen
from bastion.records.keys import layout
from bastion.records.reports.facts import Ended
from bastion.records.requests.job_request import JobsRequest
from bastion.records.root import Held
from bastion.service.act.machines import Machines
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.arrivals import Intake
from bastion.service.intake.bells import apply_host_event
from bastion.service.intake.inbox import ReadBell, ReadRequest
from bastion.service.intake.requests import Rules
from bastion.service.leader import Leader
from bastion.store.memory import MemoryStore
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, ObjectStore, Version, Written
from tests.rigs.wrapped import Wrapped
from tests.simulation.away import AwayError
from tests.simulation.baton import ByDate
from tests.simulation.machines import CalmHome
from tests.simulation.processes import Parts
from tests.simulation.rights import of_every_pool


class MakesAnew(Wrapped):
    """Creates another folder if that of the bucket is missing, and uses it as the bucket."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._anew = MemoryStore(lambda: 0.0)

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        try:
            return super().read(key, unless=unless, limit_bytes=limit_bytes)
        except AwayError:
            return self._anew.read(key, unless=unless, limit_bytes=limit_bytes)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        try:
            return super().create(key, data)
        except AwayError:
            return self._anew.create(key, data)

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        try:
            return super().list(prefix, start_after=start_after, limit=limit)
        except AwayError:
            return self._anew.list(prefix, start_after=start_after, limit=limit)


class SaysWritten(Wrapped):
    """Reports a create as done while the folder of the bucket is missing."""

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        try:
            return super().create(key, data)
        except AwayError:
            return Written(version=Version("none"), modified_at=0.0)


class RefusalIsOutage(Wrapped):
    """Treats an object that the store does not return as an outage, which passes."""

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        try:
            return super().read(key, unless=unless, limit_bytes=limit_bytes)
        except StoreRefusedError as error:
            raise StoreError(error.message) from error


class OneForAll(Wrapped):
    """After an object that cannot be read, considers the store out of reach."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._is_refused = False

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        if self._is_refused and key == layout.QUOTA:
            self._is_refused = False
            raise StoreError("the store is out of reach")
        try:
            return super().read(key, unless=unless, limit_bytes=limit_bytes)
        except StoreRefusedError:
            self._is_refused = True
            raise


class BlamesJob(Wrapped):
    """Reports what a machine could not start as the failure of the job."""

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        if key.endswith("/end") and b'"by_machine":true' in data:
            said = json.loads(data)
            said["end"] |= {"kind": "setup_failed", "by_machine": False}
            data = json.dumps(said).encode()
        return super().create(key, data)


class NotByMachine(Wrapped):
    """Does not report that the machine could not start a host."""

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        if key.endswith("/end") and b'"by_machine":true' in data:
            data = data.replace(b'"by_machine":true', b'"by_machine":false')
        return super().create(key, data)


class BelievesAll(Leader):
    """Believes what a machine says of any host, without reading a register."""

    def __init__(self, held: Held, **parts: Any) -> None:
        super().__init__(held, **parts)
        self._intake = _Believing(self._store, self._spec_lane, self._journal)


class _Believing(Intake):
    def apply_bell(self, draft: Draft, read_bell: ReadBell, pools: Mapping[str, Pool]) -> None:
        """See `Intake`."""
        super().apply_bell(draft, read_bell, pools)
        for fact in read_bell.bell.facts if read_bell.bell is not None else ():
            if isinstance(fact, Ended):
                of = fact.of
                apply_host_event(
                    draft, of, HostEnded(replica=of.replica, host=of.host, end=fact.end)
                )


class BelievesTargets(Leader):
    """Treats a verb as that of its target's owner, whatever the path of the request."""

    def __init__(self, held: Held, **parts: Any) -> None:
        super().__init__(held, **parts)
        self._intake = _AsOwner(self._store, self._spec_lane, self._journal)


class _AsOwner(Intake):
    def apply_request(self, draft: Draft, arrived: ReadRequest, rules: Rules) -> bool:
        """See `Intake`."""
        targets = arrived.body.targets if isinstance(arrived.body, JobsRequest) else ()
        for job in (draft.jobs[target] for target in targets if target in draft.jobs):
            name = replace(arrived.waiting.name, project=job.project, user=job.user)
            arrived = replace(arrived, waiting=replace(arrived.waiting, name=name))
        return super().apply_request(draft, arrived, rules)


class NonsenseIsOutage(Leader):
    """Treats a request that cannot be decoded as an outage: its turn is discarded."""

    def __init__(self, held: Held, **parts: Any) -> None:
        super().__init__(held, **parts)
        self._intake = _Strict(self._store, self._spec_lane, self._journal)


class _Strict(Intake):
    def apply_request(self, draft: Draft, arrived: ReadRequest, rules: Rules) -> bool:
        """See `Intake`."""
        if arrived.problems:
            raise StoreError(arrived.problems[0])
        return super().apply_request(draft, arrived, rules)


class FollowsLinks(CalmHome):
    """Keeps what a job links to in its output as if it were there."""

    def has_output(self, key: str) -> bool:
        """See `Home`."""
        output = Path(self.folders(key).output)
        for path in output.rglob("*") if not output.is_symlink() else ():
            if path.is_symlink() and path.is_file() and not path.is_char_device():
                data = path.read_bytes()
                path.unlink()
                path.write_bytes(data)
        return super().has_output(key)


class ReadsAny(CalmHome):
    """Reads a report like any file, through links to any place."""

    def marks(self, key: str) -> Marks:
        """See `Home`."""
        report = Path(self.folders(key).marks, "report")
        if report.is_symlink() and report.is_file():
            return Marks(report=json.loads(report.read_text()))
        return super().marks(key)


class Raises(CalmHome):
    """Treats an odd file of a job as an error of the agent."""

    def marks(self, key: str) -> Marks:
        """See `Home`."""
        report = Path(self.folders(key).marks, "report")
        if report.is_symlink():
            report.read_text()
        return super().marks(key)


class BelievesAbsence(Machines):
    """Treats a host that no list shows as gone, whatever may still run there."""

    def reconcile(
        self,
        draft: Draft,
        pools: Mapping[str, Pool],
        fresh: Mapping[str, tuple[Seen, ...]],
        in_use: Collection[str],
        options: Options,
    ) -> str:
        """See `Machines`."""
        stale = super().reconcile(draft, pools, fresh, in_use, options)
        for name, machine in list(draft.machines.items()):
            shown = {seen.name for seen in fresh.get(machine.pool, ())}
            if machine.pool in fresh and machine.life and name not in shown:
                draft.drop_machine(name)
        return stale


class GivesUpAtOnce(Machines):
    """Treats a silent host as off long before its permit has expired."""

    def reconcile(
        self,
        draft: Draft,
        pools: Mapping[str, Pool],
        fresh: Mapping[str, tuple[Seen, ...]],
        in_use: Collection[str],
        options: Options,
    ) -> str:
        """See `Machines`."""
        stale = super().reconcile(draft, pools, fresh, in_use, options)
        for name, machine in list(draft.machines.items()):
            if machine.phase is MachinePhase.SILENT:
                draft.drop_machine(name)
        return stale


OUTSIDE: dict[str, Parts] = {
    "a missing root is made anew": Parts(agent_store=MakesAnew),
    "what a missing root was told is taken for written": Parts(agent_store=SaysWritten),
    "a refusal passes for an outage": Parts(bastion_store=RefusalIsOutage),
    "one unreadable object stands for the store": Parts(bastion_store=OneForAll),
    "agents have the rights of every pool": Parts(agent_rights=of_every_pool),
    "a machine is believed about every host": Parts(leader=BelievesAll),
    "a verb counts as the owner's of its target": Parts(leader=BelievesTargets),
    "a request of nonsense passes for an outage": Parts(leader=NonsenseIsOutage),
    "what a machine cannot start is told as a failure": Parts(agent_store=BlamesJob),
    "that a machine is at fault is not told": Parts(agent_store=NotByMachine),
    "output is kept through links": Parts(home=FollowsLinks),
    "a report is read through links": Parts(home=ReadsAny),
    "an odd file ends the agent": Parts(home=Raises),
    "a host that is not listed is taken for gone": Parts(machines=BelievesAbsence),
    "a silent host is taken for off": Parts(machines=GivesUpAtOnce),
    "a machine counts seconds by its date": Parts(machine_clock=ByDate),
    "a bastion counts seconds by its date": Parts(bastion_clock=ByDate),
}
"""By the missing safeguard."""
