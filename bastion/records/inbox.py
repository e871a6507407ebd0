"""
The inbox: what users asked and agents told, in the order of the store's time, each read once.

One list a turn when little waits. When much waits, there is a cap for each user and machine, and
the list jumps past the prefix of those with more. So a flood hides no other owner's objects. What
is too large is never read, and what has no request's or bell's name comes back as `Misplaced`, so
that it can be set aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bastion.records import layout
from bastion.records.layout import RequestName
from bastion.store import Entry, ObjectStore
from bastion.value import value

PAGE = 1000
"""Entries of one list: what object stores return at most."""
PER_OWNER = 200
"""Requests of one user, or bells of one machine, that one turn takes."""
PER_TURN = 2000
"""Requests of all users, and bells of all machines, that one turn takes: bounds its length."""
MAX_BYTES = 4 * 1024 * 1024
"""Of one request or bell; what is larger is never read."""


@value
class Waiting:
    """One request that waits in the inbox."""

    entry: Entry
    name: RequestName
    problem: str = ""
    """Why it must not be read."""


@value
class Ringing:
    """One bell that waits in the inbox."""

    entry: Entry
    machine: str
    life: int
    number: int


@value
class Misplaced:
    """An object that is no request and no bell, too large to be read, or not readable."""

    entry: Entry
    why: str
    is_unreadable: bool = False
    """Whether it is set aside without its bytes, which the store does not give."""


@value
class Inbox:
    """What one turn takes."""

    requests: tuple[Waiting, ...] = ()
    """In the store's time, then by ULID."""
    bells: tuple[Ringing, ...] = ()
    """By machine, then in the order in which they were rung."""
    misplaced: tuple[Misplaced, ...] = ()


class Look:
    """
    Looks at one inbox, turn by turn.

    If `PER_TURN` leaves owners out, the next turn goes on after the last one that was read, so that
    owners whose names sort first cannot delay the others.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._resume: dict[str, str] = {}

    def once(self) -> Inbox:
        """
        What waits in the inbox, up to the caps.

        Raises:
            StoreError: Out of reach.
        """
        entries = self._store.list(layout.INBOX, limit=PAGE)
        if len(entries) == PAGE:
            bells = self._capped(layout.BELLS)
            entries = (*self._capped(layout.INBOX), *bells)
        return _sorted(entries)

    def _capped(self, prefix: str) -> list[Entry]:
        """`PER_OWNER` of each owner below `prefix`, jumping past those who have more."""
        taken: list[Entry] = []
        counts: Counter[str] = Counter()
        start_after = self._resume.pop(prefix, "")
        while page := self._store.list(prefix, start_after=start_after, limit=PAGE):
            start_after = page[-1].key
            for entry in page:
                owner = _owner(entry.key)
                counts[owner] += 1
                if prefix == layout.INBOX and entry.key.startswith(layout.BELLS):
                    start_after = layout.after(layout.BELLS)
                    break
                if counts[owner] > PER_OWNER:
                    start_after = layout.after(owner)
                    break
                taken.append(entry)
            else:
                if len(page) < PAGE:
                    break
            if len(taken) >= PER_TURN:
                self._resume[prefix] = start_after
                break
        return taken


def _owner(key: str) -> str:
    """The prefix of everything from the user or machine that wrote `key`."""
    parts = 4 if key.startswith(layout.BELLS) else 3
    return "/".join(key.split("/")[:parts]) + "/"


def _sorted(entries: Sequence[Entry]) -> Inbox:
    requests: list[Waiting] = []
    bells: list[Ringing] = []
    misplaced: list[Misplaced] = []
    for entry in entries:
        bell = layout.parse_bell(entry.key)
        name = layout.parse_request(entry.key)
        problem = ""
        if entry.size > MAX_BYTES:
            problem = f"{entry.size} bytes is too large; at most {MAX_BYTES}"
        if name is not None and bell is None:
            requests.append(Waiting(entry=entry, name=name, problem=problem))
        elif bell is not None and not problem:
            machine, life, number = bell
            bells.append(Ringing(entry=entry, machine=machine, life=life, number=number))
        else:
            why = problem or "its name is no request's and no bell's"
            misplaced.append(Misplaced(entry=entry, why=why))
    requests.sort(key=lambda w: (w.entry.modified_at, w.name.ulid))
    bells.sort(key=lambda b: (b.machine, b.life, b.number))
    return Inbox(requests=tuple(requests), bells=tuple(bells), misplaced=tuple(misplaced))
