"""
The inbox: what users asked and agents told, in the order of the store's time, each read once.

One list a turn when little waits. When much waits, a cap per user and a jump past his prefix keep a
flood from hiding anybody, and bells are always listed. What is too large, or whose name says
nothing, is never read: it comes back as `Misplaced`, so that it can be set aside.
"""

from __future__ import annotations

from bastion.records import layout
from bastion.records.layout import RequestName
from bastion.store import Entry, ObjectStore
from bastion.value import value

PAGE = 1000
"""Entries of one list: what object stores return at most."""
PER_USER = 200
"""Requests of one user that one turn takes."""
PER_TURN = 2000
"""Requests of all users that one turn takes: bounds the length of a turn."""
MAX_REQUEST_BYTES = 4 * 1024 * 1024
MAX_BELL_BYTES = 4 * 1024 * 1024
_LAST = "\U0010ffff"
"""Sorts after every character a name may hold."""


@value
class Waiting:
    """One request that waits in the inbox."""

    entry: Entry
    name: RequestName


@value
class Ringing:
    """One bell that waits in the inbox."""

    entry: Entry
    machine: str
    life: int
    number: int


@value
class Misplaced:
    """An object that is no request and no bell, or too large to be read."""

    entry: Entry
    why: str


@value
class Inbox:
    """What one turn takes."""

    requests: tuple[Waiting, ...] = ()
    """In the store's time, then by ULID."""
    bells: tuple[Ringing, ...] = ()
    """By machine, then in the order in which they were rung."""
    misplaced: tuple[Misplaced, ...] = ()
    more: bool = False
    """Whether a cap left something for the next turn."""


def look(store: ObjectStore) -> Inbox:
    """
    What waits in the inbox, up to the caps.

    Raises:
        StoreError: Out of reach.
    """
    entries = list(store.list(layout.INBOX, limit=PAGE))
    more = len(entries) == PAGE
    if more:
        bells = store.list(layout.BELLS, limit=PAGE)
        requests = _capped(store, entries)
        entries = [*(e for e in requests if not e.key.startswith(layout.BELLS)), *bells]
    return _sorted(entries, more=more)


def _capped(store: ObjectStore, page: list[Entry]) -> list[Entry]:
    """Requests from `page` on, `PER_USER` of each user, jumping past those who have more."""
    taken: list[Entry] = []
    counts: dict[str, int] = {}
    while page and len(taken) < PER_TURN:
        jump = ""
        for entry in page:
            owner = "/".join(entry.key.split("/")[:3]) + "/"
            counts[owner] = counts.get(owner, 0) + 1
            if counts[owner] > PER_USER or owner.startswith(layout.BELLS):
                jump = (layout.BELLS if owner.startswith(layout.BELLS) else owner) + _LAST
                break
            taken.append(entry)
        if not jump and len(page) < PAGE:
            break
        page = list(store.list(layout.INBOX, start_after=jump or page[-1].key, limit=PAGE))
    return taken


def _sorted(entries: list[Entry], *, more: bool) -> Inbox:
    requests: list[Waiting] = []
    bells: list[Ringing] = []
    misplaced: list[Misplaced] = []
    for entry in entries:
        bell = layout.parse_bell(entry.key)
        name = layout.parse_request(entry.key)
        limit = MAX_BELL_BYTES if bell else MAX_REQUEST_BYTES
        if bell is None and name is None:
            misplaced.append(Misplaced(entry=entry, why="its name is no request's and no bell's"))
        elif entry.size > limit:
            why = f"{entry.size} bytes is too large; at most {limit}"
            misplaced.append(Misplaced(entry=entry, why=why))
        elif bell is not None:
            machine, life, number = bell
            bells.append(Ringing(entry=entry, machine=machine, life=life, number=number))
        elif name is not None:
            requests.append(Waiting(entry=entry, name=name))
    requests.sort(key=lambda w: (w.entry.modified_at, w.name.ulid))
    bells.sort(key=lambda b: (b.machine, b.life, b.number))
    return Inbox(
        requests=tuple(requests), bells=tuple(bells), misplaced=tuple(misplaced), more=more
    )
