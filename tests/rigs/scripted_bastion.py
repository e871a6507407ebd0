"""
A bastion in a few lines, for tests of the client: it answers the requests in the inbox.

It acts when the client sleeps, on the client's virtual clock. So a test needs no threads and no
waiting, and every run is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from bastion.clock import VirtualClock
from bastion.errors import NotFoundError
from bastion.job import OutcomeKind, PastAttempt
from bastion.records.coding.codec import decode, encode
from bastion.records.keys import layout
from bastion.records.requests.answer import Answer
from bastion.records.requests.launch_request import LaunchRequest, SpecRecord
from bastion.records.requests.request import BODIES, Body
from bastion.records.requests.result import Result
from bastion.scheduler.machine_report import MachineReport
from bastion.spec import job_id
from bastion.store.memory import MemoryStore
from bastion.store.port import ObjectStore

QUOTA = """\
[toml-schema]
version = "1"
[total_resources]
v4 = 1024
h100 = 64
[project_membership]
blue = ["ada", "eve"]
green = ["lin", "eve"]
[project_resources.blue]
v4 = 0.5
[project_resources.green]
v4 = 0.5
"""

NOW = 1_700_000_000.0


class Clock(VirtualClock):
    """A virtual clock that runs other actors at every sleep."""

    def __init__(self) -> None:
        super().__init__(wall=NOW)
        self.on_sleep: list[Callable[[], None]] = []

    def sleep(self, seconds: float) -> None:
        """Pass `seconds`, then run the other actors."""
        super().sleep(seconds)
        for act in self.on_sleep:
            act()


class ScriptedBastion:
    """
    Answers requests as scripted.

    Args:
        store: The bucket it serves.
        clock: The clock at whose sleeps it acts.
    """

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self.store = store
        self.refusals: list[str] = []
        """The problems with which the next requests are refused, one each."""
        self.machines: tuple[MachineReport, ...] = ()
        """The machines that a refusal lists."""
        self.taken: list[tuple[str, Body]] = []
        """(key, body) of every request that was absorbed."""
        self.on_taken: Callable[[layout.RequestName, Body], None] = lambda *_: None
        """Called for each request before its answer is written."""
        clock.on_sleep.append(self.turn)

    def turn(self) -> None:
        """Absorb and answer everything in the inbox."""
        for entry in self.store.list(layout.INBOX):
            name = layout.parse_request(entry.key)
            assert name is not None
            found = self.store.read(entry.key)
            assert found is not None
            body = decode(BODIES[name.verb], found.data, key=entry.key)
            self.taken.append((entry.key, body))
            self.on_taken(name, body)
            answer = self._answer(name, body)
            self.store.create(layout.answer(name.project, name.user, name.ulid), encode(answer))
            self.store.delete(entry.key)

    def _answer(self, name: layout.RequestName, body: Body) -> Answer:
        if self.refusals:
            problems = (self.refusals.pop(0),)
            return Answer(
                ulid=name.ulid,
                verb=name.verb,
                accepted=False,
                problems=problems,
                machines=self.machines,
            )
        if not isinstance(body, LaunchRequest):
            return Answer(ulid=name.ulid, verb=name.verb, accepted=True, at=NOW)
        launch = body.launch
        single = len(launch.jobs) == 1
        names = [launch.name if single else f"{launch.name}-{job.name}" for job in launch.jobs]
        spec = SpecRecord(
            id=job_id(launch.name, name.ulid),
            project=name.project,
            user=name.user,
            ulid=name.ulid,
            launch=launch,
            origin=body.origin,
            again_of=body.again_of,
        )
        put(self.store, layout.spec(spec.project, spec.id), encode(spec))
        return Answer(
            ulid=name.ulid,
            verb=name.verb,
            accepted=True,
            launch=job_id(launch.name, name.ulid),
            jobs=tuple(job_id(each, name.ulid) for each in names),
        )


def world() -> tuple[MemoryStore, Clock]:
    """Return an empty bucket with a quota file, and the clock of all actors."""
    clock = Clock()
    store = MemoryStore(clock.wall)
    store.create(layout.QUOTA, QUOTA.encode())
    lead(store, now=NOW + 10)
    return store, clock


def lead(store: ObjectStore, *, now: float, **fields: object) -> None:
    """Publish the status of a bastion that leads at `now`."""
    publish(store, "status", {"now": now, "leader": "vm", "host": "vm", "ttl_s": 3.0, **fields})


def row(job: str, *, state: str = "queued", **fields: object) -> dict[str, object]:
    """Return a row of the queue's view."""
    made: dict[str, object] = {
        "id": job,
        "name": job[:-11],
        "project": "blue",
        "user": "ada",
        "launch": job,
        "state": state,
        "phase": state,
        "class": None,
        "priority": 3,
        "units": {"h100": 2},
        "replicas": 1,
        "submitted_at": NOW,
        "started_at": None,
        "attempt": 0,
        "preemptions": 0,
        "machines": [],
        "reason": {"kind": "behind"},
        "text": "behind two jobs",
        "estimated_at": None,
    }
    return made | fields


def publish(store: ObjectStore, name: str, view: Mapping[str, object]) -> None:
    """Publish a view, replacing the previous one."""
    put(
        store,
        layout.view(name),
        json.dumps({"schema": 1, "now": NOW + 10, "seq": 1, **view}).encode(),
    )


def put(store: ObjectStore, key: str, data: bytes) -> None:
    """Write an object, replacing any."""
    try:
        found = store.read(key)
    except NotFoundError:
        store.create(key, data)
        return
    assert found is not None
    store.swap(key, data, if_version=found.version)


def end(
    store: ObjectStore,
    job: str,
    *,
    outcome: str = "succeeded",
    code: int | None = 0,
    task: int | None = None,
    **more: object,
) -> None:
    """Write the final record of a job of project blue, or of the one in `more`."""
    project = str(more.get("project", "blue"))
    result = Result(
        id=job,
        project=project,
        user="ada",
        launch=str(more.get("launch", job)),
        name=str(more.get("name", job[:-11])),
        task=task,
        outcome=outcome,
        text=str(more.get("text", "exited with code 0")),
        code=code,
        submitted_at=NOW,
        ended_at=NOW + 60,
        attempts=1,
        past=(
            PastAttempt(
                number=1,
                nonce="n",
                admitted_at=NOW + 1,
                started_at=NOW + 2,
                ended_at=NOW + 60,
                kind=OutcomeKind.SUCCEEDED,
                machines=(("m-1",),),
            ),
        ),
    )
    store.create(layout.result(project, job), encode(result))


def print_log(
    store: ObjectStore, job: str, *parts: bytes, attempt: int = 1, replica: int = 0
) -> None:
    """Add segments to the log of a job of project blue."""
    prefix = layout.log("blue", job, attempt, replica=replica, host=0, process=0)
    entries = store.list(prefix)
    offset = sum(entry.size for entry in entries)
    for part in parts:
        store.create(f"{prefix}{layout.padded(offset)}.log", part)
        offset += len(part)
