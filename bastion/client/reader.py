"""
A client's reads: jobs, reasons, events, pools, logs, the quota file.

Reads need the bucket but no bastion; every view has the time at which it was true.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from bastion.client.event_reader import EventReader
from bastion.errors import NotFoundError, SpecError
from bastion.value import replace

if TYPE_CHECKING:
    from pathlib import Path

    from bastion.client.code.outputs import Fetched
    from bastion.client.code.stored_code import CodeView
    from bastion.client.follow.log_filter import Wanted
    from bastion.client.follow.printed import Printed
    from bastion.client.look.find_job import JobNames, Named
    from bastion.client.look.job_line import JobLine
    from bastion.client.look.usage import JobUse, TopView
    from bastion.client.look.views import JobView, PoolsView, Why
    from bastion.client.look.watch import WaitReport
    from bastion.client.status.status_view import StatusView
    from bastion.history import Record
    from bastion.records.requests.launch_request import SpecRecord
    from bastion.spec import Sweep
    from bundler.progress import Report

MAX_RECORDS = 100
"""Final records of tasks that are read together: a few seconds on a cloud."""


class Reader(EventReader):
    """
    The reads of `Client`. Its arguments are those of `Client`.

    Raises:
        SpecError: The URL, the user or the project is malformed.
        StoreRefusedError: There can be no store at that place.
    """

    def jobs(
        self,
        *,
        project: str = "",
        user: str = "",
        states: Collection[str] = (),
        finished: int = 0,
        tasks: bool = False,
    ) -> tuple[JobView, ...]:
        """
        Return active jobs, running first, then in the order of the queue; an array is one of them.

        The list is the last published one and may not yet have a job that was accepted a moment
        ago. `job`, `wait` and the job's handle know it immediately.

        Args:
            project: Only jobs of this project.
            user: Only jobs of this user.
            states: Only jobs in one of these states, or in this one.
            finished: How many finished jobs to add, newest first.
            tasks: Also return the admitted tasks of arrays, each as a job.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            SpecError: There is no such state.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.look.job_line import whole
        from bastion.client.status.display import Rows

        lines = self.job_lines(
            project=project, user=user, states=states, finished=finished, tasks=tasks
        )
        return Rows(map(whole, lines))

    def job_lines(
        self,
        *,
        project: str = "",
        user: str = "",
        states: Collection[str] = (),
        finished: int = 0,
        tasks: bool = False,
    ) -> tuple[JobView | JobLine, ...]:
        """
        Return the jobs that `jobs` returns, with only what a list shows; takes the same arguments.

        Raises:
            BastionError: As for `jobs`.
        """
        from bastion.client.look.job_line import check_states, chosen, tells_time, whole

        states = check_states(states)
        rows: Iterable[JobView | JobLine] = self._published.queue_lines()
        if finished:
            places = (project,) if project else self._published.projects()
            ended = self._published.finished(places, limit=finished)
            known = {job.id for job in ended}
            rows = [*(row for row in rows if row.id not in known), *ended]
        found: Sequence[JobView | JobLine]
        found = tuple(chosen(rows, project=project, user=user, states=states, tasks=tasks))
        if any(map(tells_time, found)):
            from bastion.client.look.told_reason import rows_told_now

            found = rows_told_now(found, self.queue_as_of)
        return self._with_parameters(map(whole, found)) if tasks else tuple(found)

    def queue_as_of(self) -> float:
        """
        Return when the list of active jobs was published, in Unix seconds by the store's clock.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: The bucket is unreachable.
        """
        return self._published.queue_as_of()

    def store_now(self) -> float:
        """
        Return the latest known time of the store's clock, in Unix seconds.

        While no bastion publishes, running machines still report the time.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: The bucket is unreachable.
        """
        as_of = self.queue_as_of()
        return max(as_of, self._live_use.newest_at()) if self.presence.absence() else as_of

    @property
    def record(self) -> Record:
        """The record of everything that has ended, for `bastion.history.ask`."""
        from bastion.history import Record

        return Record(self.store, self.root)

    def job(self, name: str | Named, *, project: str = "") -> JobView:
        """
        Return one job, by id, by the unique beginning of its id, or by name (then the newest).

        An array is one job; the suffix `.17` selects that task of it. A job that `wait` returned as
        ended has ended here too.

        Raises:
            NotFoundError: There is no such job.
            SpecError: The name is ambiguous.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.look.find_job import find

        known = find(self._published, name, project=project)
        if known.phase == "draining":
            # For a moment its row exists beside its final record, which `wait` may have returned.
            known = self._recorded(known)
        from bastion.client.look.told_reason import told_now

        (found,) = self._with_parameters((known,))
        return told_now(found, self.queue_as_of)

    def spec(self, name: str, *, project: str = "") -> SpecRecord:
        """
        Return the checked spec of a job's launch, as the bastion stored it.

        Args:
            name: The job, or the launch.
            project: Only look in this project.

        Raises:
            NotFoundError: There is no such job or launch, or its spec was deleted.
            SpecError: The name is ambiguous.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.code.stored_code import named_spec

        return named_spec(self._published, name, project=project)

    def code(self, name: str, *, project: str = "") -> CodeView:
        """
        Return the code that a job runs or ran, and the origin of its launch.

        Raises:
            BastionError: As for `spec`.
        """
        from bastion.client.code.stored_code import code_view

        return code_view(self.store, self.spec(name, project=project))

    def checkout(self, name: str, directory: str | Path, *, project: str = "") -> Path:
        """
        Write the exact code of a job into `directory`, absent or empty, and return its path.

        Raises:
            SpecError: The job has no code that can be written into a folder.
            BastionError: The code cannot be fetched, or a file is in its place; also as for `spec`.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.code.outputs import folder_at
        from bastion.client.code.stored_code import check_out

        to = folder_at(directory)
        check_out(self.store, self.spec(name, project=project), to)
        return to

    def tasks(self, name: str, *, project: str = "", needed: bool = True) -> tuple[JobView, ...]:
        """
        Return every task of an array, in order, with its parameters.

        Waiting tasks have only their state. So do ended tasks if there are more than 100 of them:
        select fewer, such as `sweep.0-99`, to get their final records.

        Args:
            name: The array, or some of its tasks, such as `sweep.0-4,9`.
            project: Only look in this project.
            needed: Whether it is an error if `name` is not an array; else the result is empty.

        Raises:
            NotFoundError: There is no such array.
            SpecError: The name is ambiguous, or names a job that is not an array.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.look.array_views import states_of
        from bastion.spec.arrays.task import task_id, tasks_named

        named = tasks_named(name)
        if named is None or len(named[1]) == 1:
            array = self.job(name, project=project)
            some = None
        else:
            (part,) = self.all_named(name, project=project)
            array = self.job(part.launch, project=part.project)
            some = named[1]
        spec = self._published.spec(array.project, array.launch) if array.is_array else None
        if spec is None or spec.launch.tasks is None:
            if needed:
                raise SpecError(f"{array.id} is not an array and has no tasks")
            return ()
        # An ended task may still have its row while its record is not there yet.
        rows = {}
        with suppress(NotFoundError):
            rows = {row.id: row for row in self._published.queue()}
        indices = spec.launch.tasks if some is None else some
        made = states_of(array)
        names = (task_id(array.id, index) for index in indices)
        found = [rows.get(name) or made(name) for name in names]
        # A task that the array calls active but that has no row has since ended; a draining task's
        # final record exists for a moment beside its row.
        over = [task.has_ended or task.state in ("active", "draining") for task in found]
        if sum(over) <= MAX_RECORDS:
            found = [self._recorded(task) if over[n] else task for n, task in enumerate(found)]
        return self._with_parameters(found)

    def _recorded(self, job: JobView) -> JobView:
        """Return the final record of `job` if there is one."""
        return self._published.result(job.project, job.id) or job

    def _with_parameters(self, jobs: Iterable[JobView]) -> tuple[JobView, ...]:
        """Return `jobs`, with parameters added to tasks of a sweep."""
        from bastion.client.status.display import Rows

        sweeps: dict[str, Sweep | None] = {}
        made = []
        for job in jobs:
            if job.task is not None and job.launch not in sweeps:
                spec = self._published.spec(job.project, job.launch)
                sweeps[job.launch] = None if spec is None else spec.launch.sweep
            sweep = None if job.task is None else sweeps[job.launch]
            known = {} if sweep is None or job.task is None else sweep.point(job.task)
            made.append(replace(job, parameters=known) if known else job)
        return Rows(made)

    def why(self, name: str | Named, *, project: str = "") -> Why:
        """
        Return why a job is in its state, in words and numbers, and what would change it.

        For a newly submitted job, it waits up to one second for the reason.

        Raises:
            NotFoundError: There is no such job.
            SpecError: The name is ambiguous.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.look.told_reason import settled, why_of

        job = settled(lambda: self.job(name, project=project), self.clock)
        return why_of(job, None if job.has_ended else self._status())

    def _status(self) -> StatusView | None:
        try:
            return self.status()
        except NotFoundError:  # nothing is in force, and no bastion has said so yet
            return None

    def pool(self) -> PoolsView:
        """
        Return every machine: what it has, what is free, and which jobs are on it.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: The bucket is unreachable.
        """
        return self._published.pools()

    def top(self) -> TopView:
        """
        Return the recently reported use of every machine, device by device.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.look.usage import top_view

        pools = self._published.pools()
        held = {job for machine in pools.machines for job in machine.jobs}
        jobs = self._published.queued(held) if held else {}
        holders = {job: (row.project, row.user) for job, row in jobs.items()}
        return top_view(pools, self._live_use.read(), holders)

    def use(self, job: JobView) -> JobUse | None:
        """
        Return the current use of a running job's hosts; None if none of them reported recently.

        Raises:
            BastionError: It is not a job as returned by `job`, or the bucket is unreachable.
        """
        from bastion.client.look.views import JobView

        if not isinstance(job, JobView):
            raise SpecError(f"job: {job!r} is not a job; give client.job({job!r})")
        return self._live_use.of_job(job.project, job.id, job.machines)

    def status(self) -> StatusView:
        """
        Return the bastion's status: its leader, the files in force, the problems.

        For a leader that is silent, it has the last warning of its log.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: The bucket is unreachable.
        """
        return self._published.explained(self._published.status())

    def logs(
        self,
        name: str | Named,
        wanted: Wanted | None = None,
        *,
        follow: bool = False,
        project: str = "",
    ) -> Printed:
        """
        Return the exact output of a job's processes: `print` it, or iterate over its chunks.

        For an array, it is the output of its tasks, one after the other. While a log is followed,
        failures of the store only delay it, and are reported. So are refusals, unless the store
        refuses only this log for a minute.

        Args:
            name: The job.
            wanted: The part of the log; None: all of the newest attempt.
            follow: Continue until the job has ended.
            project: Only look for the job in this project.

        Raises:
            NotFoundError: There is no such job, attempt, replica or process, or bytes of its log
                are missing.
            SpecError: The name is ambiguous.
            StoreRefusedError: The log is followed, and the store refuses it alone.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.follow.log_filter import Wanted
        from bastion.client.follow.printed import Printed, in_turn

        job = self.job(name, project=project)
        some = wanted or Wanted()
        tasks = self.tasks(job.id, project=job.project, needed=False) if job.is_array else ()
        if tasks:
            read = partial(in_turn, partial(self.following.of_tasks, tasks, some, follow=follow))
        else:
            tasks = (job,)
            read = partial(self.following.of, job, some, follow=follow)
        self.check_log(tasks, some)
        return Printed(job.id, read, is_followed=follow and not job.is_decided)

    def check_log(self, jobs: Sequence[JobView], wanted: Wanted) -> None:
        """
        Check that a job, or one of the tasks of an array, has the requested part of its log.

        Raises:
            NotFoundError: It has no such attempt, replica or process.
        """
        from bastion.client.follow.log_check import check_log

        check_log(self._published, jobs, wanted)

    def fetch(
        self,
        name: str,
        directory: str | Path = "",
        *,
        attempt: int | None = None,
        replica: int | None = None,
        project: str = "",
        report: Report | None = None,
    ) -> Fetched:
        """
        Fetch what a job kept in BASTION_OUTPUT_DIR, during its run or afterwards.

        A repeated call fetches only what is missing or has changed since.

        Args:
            name: The job; for an array or `sweep.0-9`, each task has a folder named by its index.
            directory: The destination; by default a folder here named by the job's id, with a
                `.gitignore`, so that neither git nor the next bundle includes it.
            attempt: The attempt; None: for each host the newest attempt that kept anything.
            replica: Only this one.
            project: Only look for the job in this project.
            report: Called with the progress.

        Raises:
            NotFoundError: There is no such job, or it kept nothing.
            SpecError: The name is ambiguous.
            BastionError: The folder cannot be written, or the kept output is damaged.
            StoreError: The bucket is unreachable; fetched files stay, so a retry continues.
        """
        from bastion.client.code.outputs import Wish, fetch_all

        tasks = self.tasks(name, project=project, needed=False)
        jobs = tasks or (self.job(name, project=project),)
        wish = Wish(attempt=attempt, replica=replica, is_array=bool(tasks))
        return fetch_all(self.store, jobs, directory, wish, report)

    def wait(
        self,
        *names: JobNames,
        timeout: float | str | None = None,
        timeout_s: float | None = None,
        project: str = "",
        report: WaitReport | None = None,
    ) -> tuple[JobView, ...]:
        """
        Wait until all named jobs have ended, and return them.

        A failed job that is held for inspection counts as ended: its `outcome` is final.

        Args:
            names: Jobs, or launches for all of their jobs, one by one or in lists; a handle or a
                view can replace an id. An array ends with its last task. If several jobs have one
                name, the newest is meant.
            timeout: Another name for `timeout_s`, as in the standard library; also `90s`, `2h`.
            timeout_s: How long to wait; None: without limit.
            project: Only look in this project.
            report: Called at every poll with the number of ended jobs, and the number of all.

        Raises:
            NotFoundError: One of them does not exist.
            SpecError: A name is ambiguous, or both timeouts are given.
            TimedOutError: One has not ended after `timeout_s`.
            StoreError: The bucket is unreachable at first; later outages only prolong the wait.
        """
        from bastion.client.look.array_views import each_of
        from bastion.client.look.find_job import each_name, find_all
        from bastion.client.look.watch import no_report, one_timeout
        from bastion.client.status.display import Rows

        look = self._published
        found = (find_all(look, each, project=project, newest=True) for each in each_name(names))
        jobs = (each for every in found for each in every)
        places = {one: job.project for job in jobs for one in each_of(job)}
        timeout_s = one_timeout(timeout, timeout_s)
        return Rows(self.watch.wait(places, timeout_s=timeout_s, report=report or no_report))

    # For handles and the command line

    def all_named(self, name: str, *, project: str = "") -> tuple[JobView, ...]:
        """
        Return the jobs of the launch with the id `name`, or else the single job that it names.

        Raises:
            NotFoundError: There is no such job or launch.
            SpecError: The name is ambiguous.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.look.find_job import find_all

        return find_all(self._published, name, project=project)
