"""The handle of a submitted launch: its jobs, their state and logs, and their cancellation."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from bastion.client.other_names import no_attribute, told_misfits
from bastion.errors import NotFoundError, SpecError, in_notebooks

if TYPE_CHECKING:
    from codecs import IncrementalDecoder
    from typing import TextIO

    from bastion.client.follow.log_reader import Chunk
    from bastion.client.handle_client import LaunchClient
    from bastion.client.look.views import JobView, LaunchStatus
    from bastion.records.keys.layout import LogStream
    from bastion.spec.arrays.indices import Indices


@told_misfits
class LaunchHandle:
    """
    One submitted launch and its jobs.

    Args:
        client: The client that submitted it.
        launch: Its id.
        project: The project that it is charged to.
        jobs: The ids of its jobs, in the order of the launch.
        names: Their names in the launch, in the same order.
        warnings: Warnings about the submission: its code, and limits that it does not set.
        indices: The indices of its tasks if it is an array: one job, run once for every task.
    """

    def __init__(
        self,
        client: LaunchClient,
        *,
        launch: str,
        project: str,
        jobs: tuple[str, ...],
        names: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
        indices: Indices | None = None,
    ) -> None:
        self._client = client
        self.id = launch
        self.project = project
        self.jobs = jobs
        self.warnings = warnings
        self.is_array = indices is not None
        self._indices = indices
        self.names = names
        self._by_name = dict(zip(names, jobs, strict=False))

    if not TYPE_CHECKING:  # a type checker still reports an unknown name

        def __getattr__(self, name: str) -> object:
            raise in_notebooks(no_attribute(self, name))

    def __repr__(self) -> str:
        return f"LaunchHandle(id={self.id!r}, project={self.project!r}, jobs={self.jobs!r})"

    def wait(
        self, timeout: float | str | None = None, *, timeout_s: float | None = None
    ) -> LaunchStatus:
        """
        Wait until all jobs have ended, and return how they ended.

        A failed job that is held for inspection counts as ended: its `outcome` is final.

        Args:
            timeout: Another name for `timeout_s`, as in the standard library; also `90s`, `2h`.
            timeout_s: How long to wait; None: without limit.

        Raises:
            SpecError: Both are given.
            TimedOutError: A job has not ended after `timeout_s`.
        """
        from bastion.client.look.watch import one_timeout

        timeout_s = one_timeout(timeout, timeout_s)
        places = dict.fromkeys(self.jobs, self.project)
        from bastion.client.follow.notebook import progress
        from bastion.client.look.views import LaunchStatus

        with progress(self.id) as report:
            jobs = self._client.watch.wait(places, timeout_s=timeout_s, report=report)
        return LaunchStatus(jobs=jobs)

    def status(self) -> LaunchStatus:
        """
        Return the state of the jobs now.

        Raises:
            StoreError: The bucket is unreachable.
        """
        from bastion.client.look.views import LaunchStatus

        found = self._client.watch.now(dict.fromkeys(self.jobs, self.project))
        return LaunchStatus(jobs=tuple(found[job] or self._unpublished(job) for job in self.jobs))

    @property
    def tasks(self) -> tuple[JobView, ...]:
        """
        Return the tasks of the array, in order; empty if the launch is not an array.

        Raises:
            StoreError: The bucket is unreachable.
        """
        return self._client.tasks(self.id, project=self.project) if self.is_array else ()

    @property
    def counts(self) -> dict[str, int]:
        """
        Return the number of its jobs, or tasks, in each state now.

        Raises:
            StoreError: The bucket is unreachable.
        """
        return self.status().counts

    def cancel(self) -> tuple[str, ...]:
        """
        Request that all jobs end; return their ids.

        Raises:
            RefusedError: The bastion refused; the message says why.
            TimedOutError: No answer yet; the request is in the inbox and will be processed.
            InDoubtError: The request may have arrived; a retry is harmless.
            StoreError: The bucket is unreachable.
        """
        return self._client.cancel(*self.jobs, project=self.project)

    def logs(
        self, job: str | int | None = None, *, replica: int = 0, process: int | None = None
    ) -> str:
        """
        Return the output of one replica of a job in its newest attempt, as text.

        Args:
            job: Its name in the launch, or its id; a number for that task of an array. None: the
                only job of the launch.
            replica: The number of the replica.
            process: Only this process; None: all, one after the other.

        Raises:
            NotFoundError: There is no such job, task, replica or process of the launch.
            SpecError: It has several jobs, and none is named.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.follow.log_filter import Wanted
        from bastion.client.follow.log_reader import JobLog

        wanted, its_id = Wanted(replica=replica, process=process), self._id_of(job)
        log = JobLog(self._client.store, self.project, its_id)
        printed = b"".join(chunk.data for chunk in log.read(wanted))
        if not printed and (replica or process):  # or there is no such replica
            self._client.check_log([self._client.job(its_id, project=self.project)], wanted)
        return printed.decode(errors="replace")

    def follow(self, to: TextIO | None = None) -> LaunchStatus:
        """
        Write the output of all jobs as it comes, until all have ended; return how they ended.

        The output of several jobs is written line by line, each line with the name of its job. The
        output of an array's tasks has the number of the task on each line.

        Args:
            to: The stream to write to; None: standard output.

        Raises:
            SpecError: It is an array of more than 100 tasks.
            StoreError: The bucket is unreachable; the jobs continue.
        """
        names = self._written_as()
        places = dict.fromkeys(names, self.project)
        out = to or sys.stdout
        chunks = self._client.following.of_new(places, tell=lambda _: None)
        is_one = len(names) == 1 and not self.is_array
        for text in _decoded(chunks) if is_one else _named_lines(chunks, names):
            out.write(text)
            out.flush()
        return self.wait()

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def _id_of(self, job: str | int | None) -> str:
        if job is None and len(self.jobs) == 1 and not self.is_array:
            return self.jobs[0]
        if job is None:
            some = "a task's number" if self.is_array else ", ".join(self._by_name or self.jobs)
            raise SpecError("logs: no job named", hint=f"name one: {some}")
        if isinstance(job, int) and self._indices is not None:
            return self._task_id(job, self._indices)
        if job in self.jobs:
            return job
        if job in self._by_name:
            return self._by_name[job]
        raise NotFoundError(
            f"the launch {self.id} has no job {job!r}",
            hint=f"its jobs are {', '.join(self._by_name or self.jobs)}",
        )

    def _written_as(self) -> dict[str, str]:
        """Return the mark of each line of its jobs or tasks, by id."""
        from bastion.client.follow.logs import MOST_FOLLOWED, too_many
        from bastion.spec.arrays.task import task_id

        if self._indices is None:
            return dict(zip(self.jobs, self.names or self.jobs, strict=False))
        if len(self._indices) > MOST_FOLLOWED:
            raise too_many(self.id, len(self._indices))
        return {task_id(self.id, index): str(index) for index in self._indices}

    def _task_id(self, index: int, indices: Indices) -> str:
        from bastion.spec.arrays.task import task_id

        if index in indices and not isinstance(index, bool):
            return task_id(self.id, index)
        last = indices.pairs[-1][1]
        raise NotFoundError(
            f"{self.id} has no task {index}; it has {len(indices)}, from {indices.first} to {last}"
        )

    def _unpublished(self, job: str) -> JobView:
        from bastion.client.look.views import JobView, name_of

        return JobView(
            id=job,
            name=name_of(job),
            project=self.project,
            user=self._client.user,
            launch=self.id,
            state="queued",
            phase="queued",
        )


def _named_lines(chunks: Iterable[Chunk], names: Mapping[str, str]) -> Iterator[str]:
    """Yield the whole lines of several jobs, each with the name of its job."""
    from bastion.client.follow.lines import in_lines

    for chunk in in_lines(chunks):
        start = f"{names.get(chunk.job, chunk.job)} | "
        lines = chunk.text.removesuffix("\n").split("\n")
        yield "".join(f"{start}{line}\n" for line in lines)


def _decoded(chunks: Iterable[Chunk]) -> Iterator[str]:
    """Yield the text of one job as it comes; two chunks of a process may share a character."""
    from codecs import getincrementaldecoder

    make = getincrementaldecoder("utf-8")
    decoders: defaultdict[LogStream, IncrementalDecoder] = defaultdict(lambda: make("replace"))
    for chunk in chunks:
        yield decoders[chunk.stream].decode(chunk.data)
    for decoder in decoders.values():
        yield decoder.decode(b"", final=True)
