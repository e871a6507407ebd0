"""
`Client`: everything the command line does, typed, with the same names and the same errors.

It needs the bucket and nothing else. Reading goes on while the bastion is down, and every view says
as of when it is true. Changes go through the inbox and are answered by the bastion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bastion.client.following import Logs
from bastion.client.handle import LaunchHandle
from bastion.client.inbox import Inbox
from bastion.client.log import Chunk
from bastion.client.published import Published
from bastion.client.quota_file import QuotaFile
from bastion.client.requests import ChangeBody, Requests
from bastion.client.search import find, find_all
from bastion.client.submit import checked
from bastion.client.views import EventView, JobView, PoolsView, StatusView, Why
from bastion.client.wanted import Wanted
from bastion.client.watch import Waiting, Watch, unheard
from bastion.client.who import login_name
from bastion.clock import Clock, SystemClock
from bastion.errors import NotFoundError, SpecError
from bastion.records.request import (
    JobsRequest,
    LaunchRequest,
    UpdateRequest,
)
from bastion.spec import Launch, check_name, seconds_of
from bastion.store.open import open_store
from bastion.store.port import ObjectStore
from bastion.store.reach import Reach, reach_of
from quota.amounts import Amounts
from quota.tree import Quota

if TYPE_CHECKING:
    from bastion.client.code import Sent
    from bastion.scheduler.whatif import Outlook, QuotaOutlook
    from bundler.progress import Report

POLL_S = {Reach.FOLDER: 0.02, Reach.LOOPBACK: 0.1, Reach.CLOUD: 1.0}
"""Between two looks for an answer: a folder is cheap to ask, a cloud is not."""
_LOG_POLLS = 3
"""Polls between two looks at a log: agents send what is new five times a second at most."""
ANSWER_TIMEOUT_S = 60.0
"""Twelve turns of an idle bastion on a cloud store (5 s each)."""


class Client:
    """
    A user's side of one bastion.

    Args:
        root: URL of its folder or bucket, as `bastion serve --root` has it.
        user: Who asks; None: the name this process's user has in the operating system.
        project: What launches are charged to that name no project themselves.
        store: An open store, in place of the one `root` names.
        clock: Waiting and names; the machine's own by default.

    Raises:
        SpecError: The URL, the user or the project is malformed.
        StoreRefusedError: There can be no store at that place.
    """

    def __init__(
        self,
        root: str,
        *,
        user: str | None = None,
        project: str | None = None,
        store: ObjectStore | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.root = root
        self.user = user or login_name()
        self.project = project or ""
        problems = check_name("user", self.user)
        problems += check_name("project", self.project) if self.project else []
        if problems:
            raise SpecError(*problems)
        self.clock = clock or SystemClock()
        self.store = open_store(root) if store is None else store
        reach = reach_of(root)
        self.is_local = reach is Reach.FOLDER
        self.poll_s = POLL_S[reach]
        self._published = Published(self.store, self.clock.wall, place=root)
        self._quota_file = QuotaFile(self.store)
        inbox = Inbox(self.store, self.clock, poll_s=self.poll_s)
        self._requests = Requests(inbox, self.clock, self.user)
        self.watch = Watch(self._published, self.clock, poll_s=self.poll_s)
        self.following = Logs(
            self.store,
            self._published,
            None if self.is_local else self._requests,
            self.watch,
            self.clock,
            poll_s=_LOG_POLLS * self.poll_s,
        )

    # Submit

    def launch(
        self,
        launch: Launch | str | Path,
        *,
        idempotency_key: str = "",
        report: Report | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> LaunchHandle:
        """
        Submit a launch, or the TOML file at a path, and wait until the bastion has taken it.

        With an `idempotency_key`, submitting again within 30 days gives the jobs of the first
        time, whatever became of them; a refusal does not use the key up.

        Raises:
            SpecError: It is wrong: every problem.
            RefusedError: The bastion said no, and why.
            TimedOutError: No answer yet; the request is in the inbox and will be taken.
            BastionError: Its code could not be bundled.
            StoreError: The bucket is out of reach.
        """
        good, warnings = self.checked(launch), tuple[str, ...]()
        if good.code is not None:
            sent = self.send_code(good.code, report=report)
            good, warnings = dataclasses.replace(good, code=sent.ref), sent.warnings
        body = LaunchRequest(launch=good, idempotency_key=idempotency_key)
        if idempotency_key:
            answer = self._requests.ask_once(good.project, body, timeout_s=timeout_s)
        else:
            answer = self._requests.ask(good.project, "launch", body, timeout_s=timeout_s)
        return LaunchHandle(
            self,
            launch=answer.launch,
            project=good.project,
            jobs=answer.jobs,
            names=tuple(job.name for job in good.jobs),
            warnings=warnings,
        )

    def checked(self, launch: Launch | str | Path) -> Launch:
        """
        `launch` as it would be sent, code apart: project resolved, instance types looked up.

        Raises:
            SpecError: It is wrong: every problem.
            StoreError: The bucket is out of reach.
        """
        if not isinstance(launch, Launch):
            from bastion.client.specfile import read_launch

            launch = read_launch(Path(launch))
        return checked(
            launch,
            quota=self._quota_file.known(),
            user=self.user,
            project=self.project,
            machines=self._machine_resources,
        )

    def what_if(self, launch: Launch | str | Path) -> Outlook:
        """
        What would happen if `launch` were submitted now; nothing is.

        Raises:
            NotFoundError: No bastion has ever served this bucket.
            SpecError: It is wrong: every problem.
            StoreError: Out of reach.
        """
        from bastion.client.outlook import of_launch

        pools = self._published.pool_records()
        return of_launch(self.store, pools, self.checked(launch), user=self.user)

    def what_if_quota(self, text: str) -> QuotaOutlook:
        """
        What would happen if `text` were the quota file now; nothing is written.

        Raises:
            NotFoundError: No bastion has ever served this bucket.
            SpecError: It is wrong: every problem, with its line.
            StoreError: Out of reach.
        """
        from bastion.client.outlook import of_quota

        return of_quota(self.store, self._published.pool_records(), text)

    def bundle(self, path: str | Path) -> Sent:
        """
        Bundle the folder at `path` and see that the bucket has it.

        Raises:
            SpecError: The folder cannot be bundled as it is.
            BastionError: It kept changing, or is refused.
            StoreError: The bucket is out of reach.
        """
        from bundler.code import LocalDir

        return self.send_code(LocalDir(str(path)))

    def send_code(self, code: object, *, report: Report | None = None) -> Sent:
        """
        The exact reference to `code`, which is sent, resolved or built where that is needed.

        Raises:
            SpecError: What was written is wrong.
            BastionError: It could not be bundled, resolved or built.
            StoreError: The bucket is out of reach.
        """
        from bastion.client.code import settle
        from bundler.progress import unreported

        return settle(code, self.store, start=Path.cwd(), report=report or unreported)

    # See

    def jobs(
        self,
        *,
        project: str = "",
        user: str = "",
        states: Sequence[str] = (),
        finished: int = 0,
    ) -> tuple[JobView, ...]:
        """
        Active jobs, running first, then in the order of the queue.

        Args:
            project: Only of this project.
            user: Only of this user.
            states: Only in one of these states.
            finished: How many finished jobs to add, the newest.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: Out of reach.
        """
        rows: Iterable[JobView] = self._published.queue()
        if finished:
            places = (project,) if project else self._published.projects()
            ended = self._published.finished(places, limit=finished)
            known = {job.id for job in ended}
            rows = [*(row for row in rows if row.id not in known), *ended]
        return tuple(
            row
            for row in rows
            if project in ("", row.project)
            and user in ("", row.user)
            and (not states or row.state in states)
        )

    def queue_as_of(self) -> float:
        """
        When the list of active jobs was published, in the store's seconds.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: Out of reach.
        """
        return self._published.queue_as_of()

    def job(self, name: str, *, project: str = "") -> JobView:
        """
        One job, by id, by the unique beginning of its id, or by name (then the newest).

        Raises:
            NotFoundError: There is none.
            SpecError: It names several.
            StoreError: Out of reach.
        """
        return find(self._published, name, project=project)

    def why(self, name: str, *, project: str = "") -> Why:
        """
        Why a job is in its state, in words and numbers, and what would change it.

        Raises:
            NotFoundError: There is none.
            SpecError: It names several.
            StoreError: Out of reach.
        """
        job = self.job(name, project=project)
        text = job.text or f"{job.state}; the next cycle of the scheduler will say more"
        return Why(
            job=job.id,
            state=job.state,
            text=text,
            reason=job.reason,
            estimated_at=job.estimated_at,
            as_of=job.as_of,
        )

    def events(self, name: str = "", *, project: str = "") -> tuple[EventView, ...]:
        """
        What happened to a job, oldest first; to all jobs when `name` is empty.

        Raises:
            NotFoundError: There is no such job.
            SpecError: It names several.
            StoreError: Out of reach.
        """
        if not name:
            return tuple(self._published.events())
        job = self.job(name, project=project)
        return tuple(self._published.events(job=job.id, since=job.submitted_at - 1.0))

    def pool(self) -> PoolsView:
        """
        Every machine: what it has, what is free, which jobs are on it.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: Out of reach.
        """
        return self._published.pools()

    def status(self) -> StatusView:
        """
        The bastion: who leads, for how long, which quota is in force, what is wrong.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: Out of reach.
        """
        return self._published.status()

    def logs(
        self, name: str, wanted: Wanted | None = None, *, follow: bool = False, project: str = ""
    ) -> Iterator[Chunk]:
        """
        What a job's processes printed, byte for byte.

        Args:
            name: The job.
            wanted: Which part; None: all of its newest attempt.
            follow: Go on until the job has ended.
            project: Only look for the job in this project.

        Raises:
            NotFoundError: There is no such job, or bytes of its log are missing.
            SpecError: It names several.
            StoreError: Out of reach.
        """
        job = self.job(name, project=project)
        return self.following.of(job, wanted or Wanted(), follow=follow)

    def wait(
        self,
        names: Sequence[str],
        *,
        timeout_s: float | None = None,
        project: str = "",
        report: Waiting = unheard,
    ) -> tuple[JobView, ...]:
        """
        The jobs named, once every one of them has ended.

        Args:
            names: Jobs, or launches for all of their jobs.
            timeout_s: How long to wait; None: as long as it takes.
            project: Only look in this project.
            report: Told at every look how many have ended, and of how many.

        Raises:
            NotFoundError: One of them does not exist.
            SpecError: A name stands for several jobs.
            TimedOutError: One still goes on after `timeout_s`.
            StoreRefusedError: The store said no for good.
        """
        jobs = [each for name in names for each in self.all_named(name, project=project)]
        places = {job.id: job.project for job in jobs}
        return self.watch.wait(places, timeout_s=timeout_s, report=report)

    # Change

    def cancel(self, *names: str, project: str = "") -> tuple[str, ...]:
        """
        Ask that jobs end, all of a launch's when a launch is named; the ids of those asked for.

        Jobs that have ended already are left out: nothing about them can change.

        Raises:
            NotFoundError: There is no such job.
            SpecError: A name stands for several jobs.
            RefusedError: The bastion said no, and why.
            TimedOutError: No answer yet; the request is in the inbox and will be taken.
            StoreError: Out of reach.
        """
        return self._change("cancel", names, project)

    def hold(self, *names: str, project: str = "") -> tuple[str, ...]:
        """
        Keep waiting jobs from starting until released; raises what `cancel` raises.

        Raises:
            BastionError: As `cancel`.
        """
        return self._change("hold", names, project)

    def release(self, *names: str, project: str = "") -> tuple[str, ...]:
        """
        Let held jobs start again; raises what `cancel` raises.

        Raises:
            BastionError: As `cancel`.
        """
        return self._change("release", names, project)

    def prioritize(self, *names: str, priority: int, project: str = "") -> tuple[str, ...]:
        """`update` of the priority alone, 1 (highest) to 5; raises what it raises."""
        return self.update(*names, priority=priority, project=project)

    def update(
        self,
        *names: str,
        priority: int | None = None,
        max_runtime: float | str | None = None,
        project: str = "",
    ) -> tuple[str, ...]:
        """
        Change what may be changed of jobs that wait or run; raises what `cancel` raises.

        Raises:
            BastionError: As `cancel`; SpecError also for a value that is not allowed.
        """
        if priority is not None and not 1 <= priority <= 5:
            raise SpecError(f"priority: {priority} is not allowed; 1 (highest) to 5")
        limit_s = None if max_runtime is None else seconds_of("max_runtime", max_runtime)
        change = partial(UpdateRequest, priority=priority, max_runtime_s=limit_s)
        return self._change("update", names, project, change)

    # Quota

    def quota(self) -> Quota:
        """
        The quota file as it lies in the bucket now.

        Raises:
            NotFoundError: There is none.
            SpecError: It is wrong: every problem, with its line.
            StoreError: Out of reach.
        """
        return self._quota_file.quota()

    def quota_text(self) -> str:
        """
        The text of the quota file.

        Raises:
            NotFoundError: There is none.
            StoreError: Out of reach.
        """
        return self._quota_file.text()

    def apply_quota(self, text: str) -> Quota:
        """
        Put `text` in force as the quota file, once it is checked.

        Raises:
            SpecError: It is wrong: every problem, with its line; nothing was written.
            ConflictError: Someone else changed the file meanwhile; nothing was written.
            StoreError: Out of reach, or in doubt.
        """
        return self._quota_file.apply(text)

    # For handles and the command line

    def all_named(self, name: str, *, project: str = "") -> tuple[JobView, ...]:
        """
        The jobs of the launch that `name` is the id of, else the one job it names.

        Raises:
            NotFoundError: There is none.
            SpecError: It names several.
            StoreError: Out of reach.
        """
        return find_all(self._published, name, project=project)

    def _change(
        self, verb: str, names: Sequence[str], project: str, body_of: ChangeBody = JobsRequest
    ) -> tuple[str, ...]:
        jobs = (job for name in names for job in self.all_named(name, project=project))
        return self._requests.ask_of(verb, jobs, body_of, timeout_s=ANSWER_TIMEOUT_S)

    def _machine_resources(self) -> Iterator[Amounts]:
        try:
            yield from (machine.resources for machine in self.pool().machines)
        except NotFoundError:
            return
