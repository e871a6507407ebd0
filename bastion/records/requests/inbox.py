"""
The inbox: users' requests and agents' bells, in the order of the store's time, each read once.

While few objects wait, one list per turn reads all of them. While many wait, each user and machine
has a cap, and the list skips the rest of a capped prefix. So a flood from one owner hides no other
owner's objects. An oversized object is never read. An object whose name is neither a request's nor
a bell's is returned as `Misplaced`, to be set aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from bastion.records.coding.codec import MAX_REQUEST_BYTES, too_large
from bastion.records.keys import layout
from bastion.records.keys.layout import RequestName
from bastion.store import Entry, ObjectStore
from bastion.value import value

PAGE = 1000
"""Entries per list: the maximum that object stores return."""
PER_OWNER = 200
"""Maximum number of requests of one user, or bells of one machine, in one turn."""
PER_TURN = 2000
"""Maximum number of requests, and of bells, in one turn: it bounds the turn's length."""
PAGES = 20
"""Maximum lists of requests, and of bells, in one turn; the next turn continues."""
MAX_BYTES = MAX_REQUEST_BYTES
"""Maximum size of a request or bell; a larger one is never read."""


@value
class Waiting:
    """One request in the inbox."""

    entry: Entry
    name: RequestName
    problem: str = ""
    """Why it must not be read, or empty."""


@value
class Ringing:
    """One bell in the inbox."""

    entry: Entry
    machine: str
    life: int
    number: int


@value
class Misplaced:
    """An object that is neither a request nor a bell, is too large, or cannot be read."""

    entry: Entry
    why: str
    is_unreadable: bool = False
    """Whether it is set aside without its bytes, because the store does not return them."""


@value
class Inbox:
    """The objects that one turn reads."""

    requests: tuple[Waiting, ...] = ()
    """In the order of the store's time, then by ULID."""
    bells: tuple[Ringing, ...] = ()
    """By machine, then in the order in which they were rung."""
    misplaced: tuple[Misplaced, ...] = ()


class Look:
    """
    Lists one inbox, turn by turn.

    If `PER_TURN` or `PAGES` leaves owners out, the next turn continues after the last owner read,
    so owners whose names sort first cannot delay the others.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._resume: dict[str, str] = {}

    def once(self, skip: Callable[[str], bool] = lambda _: False) -> Inbox:
        """
        Return the objects in the inbox, up to the caps, without those whose key `skip` finds.

        Those do not count: a bucket that refuses deletions keeps them, and they would use up the
        caps of their owners.

        Raises:
            StoreError: The bucket is out of reach.
        """
        entries = self._store.list(layout.INBOX, limit=PAGE)
        if len(entries) == PAGE:
            bells = self._capped(layout.BELLS, skip)
            return _sorted((*self._capped(layout.INBOX, skip), *bells))
        return _sorted([entry for entry in entries if not skip(entry.key)])

    def _capped(self, prefix: str, skip: Callable[[str], bool]) -> list[Entry]:
        """Return at most `PER_OWNER` entries of each owner below `prefix`, skipping the rest."""
        taken: list[Entry] = []
        counts: Counter[str] = Counter()
        start_after = self._resume.pop(prefix, "")
        for _ in range(PAGES):
            page = self._store.list(prefix, start_after=start_after, limit=PAGE)
            if not page:
                return taken
            start_after = page[-1].key
            for entry in page:
                if prefix == layout.INBOX and entry.key.startswith(layout.BELLS):
                    start_after = layout.after(layout.BELLS)
                    break
                if skip(entry.key):
                    continue
                owner = _owner(entry.key)
                counts[owner] += 1
                if counts[owner] > PER_OWNER:
                    start_after = layout.after(owner)
                    break
                taken.append(entry)
            else:
                if len(page) < PAGE:
                    return taken
            if len(taken) >= PER_TURN:
                break
        self._resume[prefix] = start_after
        return taken


def _owner(key: str) -> str:
    """Return the prefix of all objects of the user or machine that wrote `key`."""
    parts = 4 if key.startswith(layout.BELLS) else 3
    return "/".join(key.split("/")[:parts]) + "/"


def _sorted(entries: Sequence[Entry]) -> Inbox:
    requests: list[Waiting] = []
    bells: list[Ringing] = []
    misplaced: list[Misplaced] = []
    for entry in entries:
        bell = layout.parse_bell(entry.key)
        name = layout.parse_request(entry.key)
        problem = too_large(entry.size) if entry.size > MAX_BYTES else ""
        if name is not None and bell is None:
            requests.append(Waiting(entry=entry, name=name, problem=problem))
        elif bell is not None and not problem:
            machine, life, number = bell
            bells.append(Ringing(entry=entry, machine=machine, life=life, number=number))
        else:
            why = problem or "its name is neither a request's nor a bell's"
            misplaced.append(Misplaced(entry=entry, why=why))
    requests.sort(key=lambda w: (w.entry.modified_at, w.name.ulid))
    bells.sort(key=lambda b: (b.machine, b.life, b.number))
    return Inbox(requests=tuple(requests), bells=tuple(bells), misplaced=tuple(misplaced))
