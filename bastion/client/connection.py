"""
A user's connection to one bucket: its store, its clock, and the parts that read and request through
it.

All later operations of a client use the parts that are made here; making them reads and writes
nothing.
"""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from bastion.client.change.presence import Presence
from bastion.client.change.quota_file import QuotaFile
from bastion.client.change.user import login_name
from bastion.client.other_names import no_attribute
from bastion.client.patience import Outage, PatientStore, first_contact_s
from bastion.client.status.view_reader import ViewReader
from bastion.clock import Clock, SystemClock
from bastion.errors import SpecError, in_notebooks
from bastion.profile import as_url
from bastion.spec.names import check_name
from bastion.store.date import date_of
from bastion.store.open import open_store
from bastion.store.port import ObjectStore
from bastion.store.reach import Reach, reach_of

if TYPE_CHECKING:
    from bastion.client.change.operator import Operator
    from bastion.client.change.requests import Requests
    from bastion.client.follow.logs import Logs
    from bastion.client.look.published import Published
    from bastion.client.look.usage import LiveUse
    from bastion.client.look.watch import Watch
    from bastion.profile import Profile

POLL_S = {Reach.FOLDER: 0.02, Reach.LOOPBACK: 0.1, Reach.CLOUD: 1.0}
"""Between two polls for an answer: polling a folder is cheap, polling a cloud is not."""
_LOG_POLLS = 3
"""Polls between two looks at a log: agents send new output at most five times per second."""


class Connection:
    """
    The connection of one user. Its arguments are those of `Client`.

    Raises:
        SpecError: The URL, the user or the project is malformed, or no bastion is named anywhere.
        StoreRefusedError: There can be no store at that place.
    """

    def __init__(
        self,
        root: str | PathLike[str] = "",
        *,
        user: str | None = None,
        project: str | None = None,
        store: ObjectStore | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not root and store is None:
            named = _surrounding()
            root, user, project = named.root, user or named.user, project or named.project
        if not isinstance(root, str | PathLike):
            raise SpecError(f"root: {root!r} is not a URL, nor the path of a folder")
        self.root = root = as_url(root)
        self.user = user or login_name()
        self.project = project or ""
        problems = check_name("user", self.user)
        problems += check_name("project", self.project) if self.project else []
        if problems:
            raise SpecError(*problems)
        self._handed_in = "store" if store is not None else "clock" if clock is not None else ""
        self.clock = clock or SystemClock()
        opened = open_store(root) if store is None else store
        outage = Outage(self.clock)
        self._hasty, self._outage = opened, outage
        self.store = PatientStore(opened, outage, self.clock, first_s=first_contact_s(root))
        reach = reach_of(root)
        self.is_local = reach is Reach.FOLDER
        self.poll_s = POLL_S[reach]
        self.now = date_of(opened, self.clock)
        self._views = ViewReader(self.store, self.now, place=root)
        self._quota_file = QuotaFile(self.store)
        self.presence = Presence(self._views, self._views.through(opened), self.root, self.clock)

    @cached_property
    def _requests(self) -> Requests:
        from bastion.client.change.inbox import Inbox
        from bastion.client.change.requests import Requests

        inbox = Inbox(self.store, self.clock, poll_s=self.poll_s, outage=self._outage)
        return Requests(inbox, self.clock, self.user, self.presence)

    @cached_property
    def _published(self) -> Published:
        from bastion.client.look.published import Published

        return Published.over(self._views)

    @cached_property
    def _looked(self) -> Published:
        """For callers that poll anyway: reads without retries, and keeps its own times."""
        return self._published.through(self._hasty)

    @cached_property
    def watch(self) -> Watch:
        """Waits for jobs by id."""
        from bastion.client.look.watch import Watch

        return Watch(
            self._looked,
            self.clock,
            patient=self._published,
            poll_s=self.poll_s,
            outage=self._outage,
            on_look=self.presence.glance,
        )

    @cached_property
    def operator(self) -> Operator:
        """Changes of machines."""
        from bastion.client.change.operator import Operator

        return Operator(
            self._requests,
            self._looked,
            self._hasty,
            self.clock,
            poll_s=self.poll_s,
            outage=self._outage,
        )

    @cached_property
    def _live_use(self) -> LiveUse:
        from bastion.client.look.usage import LiveUse

        return LiveUse(self.store)

    @cached_property
    def following(self) -> Logs:
        """The logs of running jobs."""
        from bastion.client.follow.logs import Logs

        return Logs(
            self.store,
            self._hasty,
            self._looked,
            None if self.is_local else self._requests,
            self.watch,
            self.clock,
            poll_s=_LOG_POLLS * self.poll_s,
            outage=self._outage,
        )

    if not TYPE_CHECKING:  # for a type checker an unknown name stays an error

        def __getattr__(self, name: str) -> object:
            raise in_notebooks(no_attribute(self, name))

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild it in another process: connections and caches stay in this one."""
        if self._handed_in:
            from pickle import PicklingError

            raise PicklingError(
                f"a client whose {self._handed_in} was handed in stays in its process; make another"
                f" one there: Client({self.root!r})"
            )
        return _made_anew, (type(self), self.root, self.user, self.project)

    def __repr__(self) -> str:
        project = f", project={self.project!r}" if self.project else ""
        return f"{type(self).__name__}({self.root!r}, user={self.user!r}{project})"


def _made_anew(kind: type[Connection], root: str, user: str, project: str) -> Connection:
    return kind(root, user=user, project=project)


def _surrounding() -> Profile:
    from bastion.profile import surrounding

    named = surrounding()
    if not named.root:
        raise SpecError(
            "no bastion named: neither a root, BASTION_ROOT nor a profile",
            hint="Client('gs://bucket/bastion'), or save it: bastion config set root=URL",
        )
    return named
