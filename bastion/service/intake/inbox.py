"""
The requests and bells that one turn reads from the inbox.

A body is read once: while its request must wait, it stays in memory, up to a limit. An object that
cannot be decoded is returned with its problems; it raises nothing. A request that is refused
because of its name alone is not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial

from bastion.clock import Clock
from bastion.errors import NotFoundError, OversizeError, RecordError, StoreError
from bastion.lane import Done, Lane
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import BELL_BYTES, LAUNCH_BYTES, REQUEST_BYTES, REQUEST_VALUES
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell
from bastion.records.requests.inbox import Look, Misplaced, Ringing, Waiting
from bastion.records.requests.job_request import JobsRequest, UpdateRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.requests.request import BODIES, Body
from bastion.records.requests.targets import Targets
from bastion.service.intake.bells import decoded
from bastion.service.intake.ended_jobs import MOST_AWAITED, Awaited, FinalRecords
from bastion.service.intake.failing import FailedReads
from bastion.service.intake.fair_share import OWNER_BYTES, OWNER_READS, Wish, fair_share
from bastion.service.intake.proofs import Proof
from bastion.spec import job_ids
from bastion.store import Entry, Object, ObjectStore
from bastion.value import value

READS_S = 10.0
"""Longest reading time of one turn; the rest waits. A third of a lease on a cloud store."""
REMEMBERED_BYTES = 8 << 20
"""Bytes of waiting requests kept in memory; those beyond it are read again."""
SMALL_BYTES = 64 << 10
"""A request that takes negligible room in that memory: every verb, and most launches."""
LAUNCH_LOOKS = 100
"""Jobs of one launch for which one turn looks up final records: some seconds on a cloud store."""
_SETTING = {
    **dict.fromkeys(("hold", "release", "update"), "jobs"),
    **dict.fromkeys(("cordon", "uncordon", "drain"), "machines"),
    "warm": "pools",
}
"""The verbs that a later verb undoes -> what they act on."""
_READS_OF_A_BODY = 2
"""The body, and its answer, which shows whether it was absorbed before."""


@value
class ReadRequest:
    """A request with its body, or with all its problems."""

    waiting: Waiting
    body: Body | None = None
    problems: tuple[str, ...] = ()
    is_answered: bool = False
    """An earlier commit answered it, and it only has to be deleted."""
    ended: frozenset[str] = frozenset()
    """Its targets or jobs that have a final record."""
    taken: frozenset[str] = frozenset()
    """Its jobs that have a final record from another request."""
    targets: Targets = field(default_factory=dict)
    """What the bucket holds of its dependencies that have left root."""
    unreadable: str = ""
    """Why it cannot be read; empty if it was read."""


@value
class ReadBell:
    """A bell with its facts, with its problem, or with both if only some facts are known."""

    ringing: Ringing
    bell: Bell | None = None
    problem: str = ""
    proof: Proof = field(default_factory=Proof)
    """Which of its facts the bucket confirms."""


@value
class InboxBatch:
    """The requests and bells that one turn read."""

    requests: tuple[ReadRequest, ...] = ()
    bells: tuple[ReadBell, ...] = ()
    misplaced: tuple[Misplaced, ...] = ()
    listed_bells: tuple[Ringing, ...] = ()
    """All bells, including those that could not be read."""
    failures: tuple[tuple[str, Exception], ...] = ()
    """Objects that were not read because of a bug in Bastion, and the error."""
    unread: tuple[tuple[str, StoreError], ...] = ()
    """Objects that the store did not return in this turn, and the error: they are tried again."""
    is_looked_on: bool = False
    """Whether this turn looked up a part of what a request names, and the next one can continue."""


@value
class _Unread:
    """An object that is listed but cannot be read, although the store answers other requests."""

    error: StoreError


@value
class _Reading:
    """A request that was read, and its targets or jobs that must still be looked up."""

    arrived: ReadRequest
    left: tuple[str, ...] = ()
    looked: frozenset[str] = frozenset()
    """The targets or jobs that were looked up."""
    looks: int = 0
    """How many lookups were made beyond those counted in advance."""
    awaited: Awaited = field(default_factory=Awaited)
    """What the bucket has of the dependencies of a launch."""


@value
class _Active:
    """What is active in root."""

    name: Callable[[str], bool]
    """Whether it is the id of a job, a launch, an array or tasks of one."""
    job: Callable[[str], bool]
    """Whether it is the id of a job or an array."""


class InboxReader:
    """
    Reads the inbox, and keeps requests that must wait there.

    Args:
        lane: Reads objects concurrently.
        clock: Measures how long an object cannot be read.
    """

    def __init__(self, store: ObjectStore, lane: Lane, clock: Clock) -> None:
        self._store = store
        self._lane = lane
        self._look = Look(store)
        self._records = FinalRecords(store)
        self._readings: dict[str, _Reading] = {}
        self._remembered_bytes = 0
        self._failed = FailedReads(clock)
        self._debts: Counter[str] = Counter()

    def read(
        self,
        *,
        skip: Callable[[str], bool],
        is_active: Callable[[str], bool],
        is_job: Callable[[str], bool] = lambda _: False,
        refusal: Callable[[Waiting], str] = lambda _: "",
        prove: Callable[[Ringing, Bell], Proof] = lambda *_: Proof(),
    ) -> InboxBatch:
        """
        Read what is in the inbox, apart from absorbed objects, which `skip` finds by key.

        `is_active` returns whether a target names an active job or launch; others are looked up
        among the final records. `is_job` returns whether it names a job or an array of root.
        `refusal` returns why a request is refused without being read, or an empty string. `prove`
        returns which facts of a bell the bucket confirms.

        What cannot be read now stays in the inbox. If it is a bell, the later bells of its machine
        stay too.

        Raises:
            StoreError: The inbox cannot be listed.
        """
        inbox = self._look.once(skip)
        requests, bells = inbox.requests, inbox.bells
        self._submit(requests, _Active(name=is_active, job=is_job), refusal)
        for ringing in bells:
            self._lane.submit(ringing.entry.key, partial(self._bell, ringing, prove))
        self._lane.settle(READS_S)
        done = {each.key: each for each in self._lane.collect()}
        arrived = [self._read_request(each, done.get(each.entry.key)) for each in requests]
        read_bells, misplaced = self._read_bells(bells, done)
        listed = {*(each.entry.key for each in requests), *(each.entry.key for each in bells)}
        self._failed.keep(listed)
        return InboxBatch(
            requests=tuple(_in_order(requests, arrived)),
            bells=read_bells,
            listed_bells=bells,
            misplaced=(*inbox.misplaced, *misplaced),
            failures=tuple(
                (each.key, each.error)
                for each in done.values()
                if each.error is not None and not isinstance(each.error, StoreError)
            ),
            unread=tuple(_unread_of(done.values())),
            is_looked_on=any(_is_begun(each.result) for each in done.values()),
        )

    def forget(self, key: str) -> None:
        """Drop the request at `key` from memory, because it was absorbed."""
        reading = self._readings.pop(key, None)
        if reading is not None:
            self._remembered_bytes -= reading.arrived.waiting.entry.size

    def _submit(
        self,
        requests: Collection[Waiting],
        active: _Active,
        refusal: Callable[[Waiting], str],
    ) -> None:
        """Start the reads of this turn: a fair share of `requests` for every user."""
        listed = {each.entry.key for each in requests}
        for key in [key for key, begun in self._readings.items() if begun.left]:
            if key not in listed:
                self.forget(key)
        works: dict[str, Callable[[], _Reading | _Unread | None]] = {}
        wishes: list[Wish] = []
        unfinished: Counter[str] = Counter()
        for begun in self._readings.values():
            if begun.left:
                unfinished[_owner(begun.arrived.waiting)] += begun.arrived.waiting.entry.size
        is_full = unfinished.total() >= REMEMBERED_BYTES
        for waiting in requests:
            entry = waiting.entry
            reading = self._readings.get(entry.key)
            reads, size = _READS_OF_A_BODY, entry.size
            problem = waiting.problem or refusal(waiting)
            if reading is not None:
                reading = replace(reading, left=_left(reading, active))
                self._readings[entry.key] = reading
                if not reading.left:
                    continue
                works[entry.key] = partial(self._look_on, reading, active)
                reads, size = min(len(reading.left), _looks(reading)), 0
            elif problem:
                works[entry.key] = partial(self._refused, waiting, problem)
                reads, size = 1, 0
            elif _has_to_wait(entry.size, own=unfinished[_owner(waiting)], is_full=is_full):
                continue  # requests in memory are completed first
            else:
                works[entry.key] = partial(self._request, waiting, active)
            wishes.append(Wish(key=entry.key, owner=_owner(waiting), reads=reads, size=size))
        for key in fair_share(wishes, self._debts):
            self._lane.submit(key, works[key])
        left = {owner: reads - OWNER_READS for owner, reads in self._debts.items()}
        self._debts = Counter({owner: reads for owner, reads in left.items() if reads > 0})

    def _read_request(self, waiting: Waiting, done: Done | None) -> ReadRequest | None:
        """Return a request as far as it is known; None if that is not enough to apply it."""
        key = waiting.entry.key
        if done is None:
            reading = self._readings.get(key)
            return reading.arrived if reading is not None and not reading.left else None
        match done.result if done.error is None else done.error:
            case _Reading() as reading:
                self._remember(key, reading)
                self._debts[_owner(waiting)] += reading.looks
                return None if reading.left else reading.arrived
            case _Unread(error=error):
                why = error.message if self._failed.gives_up_request(key, error) else ""
                problem = f"the request cannot be read: {why}"
                made = ReadRequest(waiting=waiting, problems=(problem,), unreadable=why)
                return made if why else None
            case None | StoreError():
                return None
            case error:
                problem = f"internal error: {error!r}; the bastion's log has more"
                return ReadRequest(waiting=waiting, problems=(problem,))

    def _read_bells(
        self, bells: Iterable[Ringing], done: dict[str, Done]
    ) -> tuple[tuple[ReadBell, ...], list[Misplaced]]:
        """Return the bells of this turn, and the objects that can never be read as bells."""
        read_bells: list[ReadBell] = []
        misplaced: list[Misplaced] = []
        unheard: set[str] = set()
        for each in bells:
            found = done.get(each.entry.key)
            match found if found is None or found.error is None else found.error:
                case Done(result=ReadBell() as heard) if each.machine not in unheard:
                    read_bells.append(heard)
                case Done(result=None):
                    pass
                case Done(result=_Unread(error=error)):
                    if self._failed.gives_up_bell(each.entry.key, error):
                        misplaced.append(
                            Misplaced(entry=each.entry, why=error.message, is_unreadable=True)
                        )
                    else:
                        unheard.add(each.machine)
                case None | Done() | StoreError():
                    unheard.add(each.machine)
                case error:
                    read_bells.append(ReadBell(ringing=each, problem=f"internal error: {error!r}"))
        return tuple(read_bells), misplaced

    def _remember(self, key: str, reading: _Reading) -> None:
        """Keep what was read, unless it may differ in a later turn or exceeds the memory limit."""
        self.forget(key)
        size = reading.arrived.waiting.entry.size
        is_first = not self._readings
        has_room = is_first or self._remembered_bytes + size <= REMEMBERED_BYTES
        if reading.left or (_may_wait(reading.arrived.body) and has_room):
            self._readings[key] = reading
            self._remembered_bytes += size

    def _refused(self, waiting: Waiting, problem: str) -> _Reading:
        if self._is_answered(waiting):
            return _Reading(arrived=ReadRequest(waiting=waiting, is_answered=True))
        return _Reading(arrived=ReadRequest(waiting=waiting, problems=(problem,)))

    def _request(self, waiting: Waiting, active: _Active) -> _Reading | _Unread | None:
        name = waiting.name
        if name.verb != "follow" and self._is_answered(waiting):
            return _Reading(arrived=ReadRequest(waiting=waiting, is_answered=True))
        kind = BODIES.get(name.verb)
        if kind is None:
            problem = f"{name.verb[:40]!r} is not a verb; the verbs are {', '.join(BODIES)}"
            return _Reading(arrived=ReadRequest(waiting=waiting, problems=(problem,)))
        limit_bytes = LAUNCH_BYTES if name.verb == "launch" else REQUEST_BYTES
        try:
            found = self._object(waiting.entry, limit_bytes)
            if found is None or isinstance(found, _Unread):
                return found
            body = decode(kind, found.data, key=name.verb, most_values=REQUEST_VALUES)
        except RecordError as error:
            return _Reading(arrived=ReadRequest(waiting=waiting, problems=(error.message,)))
        reading = _Reading(arrived=ReadRequest(waiting=waiting, body=body))
        return self._look_on(replace(reading, left=_left(reading, active)), active)

    def _look_on(self, reading: _Reading, active: _Active) -> _Reading:
        """Look up the final records of the next targets of a verb, or jobs of a launch."""
        budget = _looks(reading)
        while reading.left and budget > 0:
            names = reading.left[:budget]
            budget -= len(names)
            try:
                reading = self._looked(reading, names)
            except RecordError as error:
                problem = f"after: {error.message}"
                return _refused(reading, problem)
            reading = replace(reading, left=_left(reading, active))
            if len(reading.left) > MOST_AWAITED:
                problem = f"after: {len(reading.left)} of what it waits for are not active"
                return _refused(reading, f"{problem}; at most {MOST_AWAITED} are looked up")
        return replace(reading, looks=_looks(reading) - budget)

    def _looked(self, reading: _Reading, names: tuple[str, ...]) -> _Reading:
        """Return `reading` with what the bucket has of `names`."""
        arrived, name = reading.arrived, reading.arrived.waiting.name
        ended, taken, others = set(arrived.ended), set(arrived.taken), []
        own = _own(arrived)
        for target in names:
            if not isinstance(arrived.body, LaunchRequest):
                ended |= {target} if self._records.has_ended(name.project, target) else set()
            elif target in own:
                is_of_another = self._records.is_of_another(name, target)
                ended |= set() if is_of_another is None else {target}
                taken |= {target} if is_of_another else set()
            else:
                others.append(target)
        awaited = reading.awaited.after(self._store, name.project, others)
        made = replace(
            arrived, ended=frozenset(ended), taken=frozenset(taken), targets=awaited.targets()
        )
        return replace(reading, arrived=made, looked=reading.looked.union(names), awaited=awaited)

    def _bell(
        self, ringing: Ringing, prove: Callable[[Ringing, Bell], Proof]
    ) -> ReadBell | _Unread | None:
        try:
            found = self._object(ringing.entry, BELL_BYTES)
            if found is None or isinstance(found, _Unread):
                return found
            key = ringing.entry.key
            bell, unknown = decoded(found.data, key=key, most_values=REQUEST_VALUES)
        except RecordError as error:
            return ReadBell(ringing=ringing, problem=error.message)
        proof = prove(ringing, bell)
        return ReadBell(ringing=ringing, bell=bell, problem=unknown, proof=proof)

    def _object(self, entry: Entry, limit_bytes: int) -> Object | _Unread | None:
        """
        Return a listed object; None if it is gone.

        Raises:
            OversizeError: It holds more than `limit_bytes`, or more than was listed.
            StoreError: The store does not answer anything else either.
        """
        try:
            if entry.size > limit_bytes:
                raise OversizeError(entry.key, limit_bytes=limit_bytes)
            return self._store.read(entry.key, limit_bytes=entry.size)
        except NotFoundError:
            return None
        except StoreError as error:
            self._records.stands(layout.QUOTA)  # raises if the whole store fails
            return _Unread(error=error)

    def _is_answered(self, waiting: Waiting) -> bool:
        name = waiting.name
        return self._records.stands(layout.answer(name.project, name.user, name.ulid))


def _has_to_wait(size: int, *, own: int, is_full: bool) -> bool:
    """
    Whether a request of `size` bytes waits until those in memory are completed.

    Args:
        size: As listed.
        own: Bytes of its owner's requests that are not completed.
        is_full: Whether those of all owners fill the memory. A small request of an owner without
            any is still read: completing the large ones takes a hundred turns.
    """
    is_small = size <= SMALL_BYTES and not own
    return own >= OWNER_BYTES or (is_full and not is_small)


def _is_begun(result: object) -> bool:
    return isinstance(result, _Reading) and bool(result.left)


def _unread_of(done: Iterable[Done]) -> Iterator[tuple[str, StoreError]]:
    for each in done:
        error = each.result.error if isinstance(each.result, _Unread) else each.error
        if isinstance(error, StoreError):
            yield each.key, error


def _in_order(
    requests: Iterable[Waiting], arrived: Iterable[ReadRequest | None]
) -> Iterator[ReadRequest]:
    """
    Yield what has `arrived` of `requests`, without any that would overtake another of its user.

    A verb that sets something waits for earlier ones on the same thing that must still be read or
    looked up: they would undo it if they were applied later. Launches and cancels wait for none.
    """
    behind: set[tuple[str, str | None]] = set()
    for waiting, found in zip(requests, arrived, strict=True):
        sets = _SETTING.get(waiting.name.verb)
        if found is None:
            behind.add((_owner(waiting), sets))
        elif sets is None or (_owner(waiting), sets) not in behind:
            yield found


def _owner(waiting: Waiting) -> str:
    return f"{waiting.name.project}/{waiting.name.user}"


def _looks(reading: _Reading) -> int:
    """Return how many final records one turn looks up for this request."""
    return LAUNCH_LOOKS if isinstance(reading.arrived.body, LaunchRequest) else OWNER_READS


def _left(reading: _Reading, active: _Active) -> tuple[str, ...]:
    """
    Return the ids that must still be looked up, including those that just left root.

    They are the unknown targets of a verb, or the jobs of a launch and what it waits for.
    """
    match reading.arrived.body:
        case JobsRequest(targets=targets) | UpdateRequest(targets=targets):
            return tuple(
                each for each in targets if each not in reading.looked and not active.name(each)
            )
        case LaunchRequest(launch=launch):
            own = (each for each in _own(reading.arrived) if each not in reading.looked)
            return (*own, *reading.awaited.left(launch.waits_for_others, active.job))
        case _:
            return ()


def _own(arrived: ReadRequest) -> Mapping[str, None]:
    """Return the ids of the jobs of a launch."""
    if not isinstance(arrived.body, LaunchRequest):
        return {}
    return dict.fromkeys(job_ids(arrived.body.launch, arrived.waiting.name.ulid))


def _refused(reading: _Reading, problem: str) -> _Reading:
    return _Reading(arrived=ReadRequest(waiting=reading.arrived.waiting, problems=(problem,)))


def _may_wait(body: Body | None) -> bool:
    """Whether `body` can be kept: the dependencies of a launch may end before the next turn."""
    return body is not None and not (
        isinstance(body, LaunchRequest) and body.launch.waits_for_others
    )
