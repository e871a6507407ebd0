"""
`Client`: everything that the command line does, typed, with the same names and the same errors.

It needs only the bucket. Reads keep working while the bastion is down, and every view has the time
at which it was true. Changes go through the inbox, and the bastion answers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bastion.client.handle import LaunchHandle
from bastion.client.other_names import told_misfits
from bastion.client.patience import warn
from bastion.client.reader import Reader
from bastion.errors import NotFoundError, SpecError
from bastion.value import replace

if TYPE_CHECKING:
    from pathlib import Path

    from bastion.client.change.requests import ChangeBody
    from bastion.client.code.upload import ResolvedCode
    from bastion.client.follow.command import Command
    from bastion.client.look.find_job import JobNames
    from bastion.provider.way_in import WayIn
    from bastion.records.requests.launch_request import LaunchRequest
    from bastion.records.requests.origin import Origin
    from bastion.scheduler.whatif import Outlook, QuotaOutlook
    from bastion.spec import Launch, PythonEnv
    from bundler.progress import Report
    from quota.amounts import Amounts
    from quota.tree import Quota

ANSWER_TIMEOUT_S = 60.0
"""Twelve turns of an idle bastion on a cloud store (5 s each)."""


@told_misfits
class Client(Reader):
    """
    A user's side of one bastion.

    Args:
        root: URL of its bucket, or the path of its folder, as for `--root`. The default is the root
            that the command line would use here, with its user and project: from `BASTION_ROOT` and
            related variables, then from the active profile.
        user: The user who submits; None: the login name of this process's user.
        project: The project that launches are charged to when they name none.
        store: An open store to use instead of the one that `root` names.
        clock: Used for waiting and for names; by default the machine's clock.

    Raises:
        SpecError: The URL, the user or the project is malformed, or no bastion is named anywhere.
        StoreRefusedError: There can be no store at that place.
    """

    # Submit

    def launch(
        self,
        launch: Launch | str | Path,
        *,
        idempotency_key: str = "",
        origin: Origin | None = None,
        report: Report | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> LaunchHandle:
        """
        Submit a launch, or the TOML file at a path, and wait until the bastion has accepted it.

        With an `idempotency_key`, a repeated submission within 30 days returns the jobs of the
        first one, in whatever state they are. A refusal does not use up the key.

        The launch is stored with its origin: `origin`, or else the command line and script of this
        process. The difference between the code and its commit is stored too.

        Warnings about what was sent, such as files that may hold secrets, go to Python's logging,
        which prints them on stderr unless the program configures it otherwise. The handle also has
        them as `warnings`.

        Raises:
            SpecError: It is invalid; the error lists every problem.
            RefusedError: The bastion refused; the message says why.
            TimedOutError: No answer yet; the request is in the inbox and will be processed.
            InDoubtError: It may or may not have been accepted; the hint says how to find out.
            BastionError: Its code could not be bundled.
            StoreError: The bucket is unreachable; nothing was submitted.
        """
        from bastion.client.submit.check import warnings_of
        from bastion.client.submit.provenance import origin_of
        from bastion.records.requests.launch_request import LaunchRequest
        from bastion.records.requests.origin import store_origin

        self.presence.look()
        checked = self.checked(launch)
        sent = None
        if checked.code is not None:
            sent = self.send_code(checked.code, report=report, python=checked.python)
        known = origin_of(origin, launch, sent.bundled if sent is not None else None)
        body = LaunchRequest(
            launch=checked if sent is None else replace(checked, code=sent.ref),
            idempotency_key=idempotency_key,
            origin=store_origin(self.store, known),
        )
        warnings = warnings_of(checked, None if sent is None else sent.bundled)
        _say(warnings)
        warnings = (*(sent.warnings if sent is not None else ()), *warnings)
        return self._submitted(body, warnings=warnings, timeout_s=timeout_s)

    def rerun(
        self,
        name: str,
        *,
        priority: int | None = None,
        env: Mapping[str, str] | None = None,
        idempotency_key: str = "",
        project: str = "",
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> LaunchHandle:
        """
        Submit a job's launch again with the same spec and code, whether or not the job has ended.

        Args:
            name: The job, or a launch for all of its jobs. For one of several jobs, the whole
                launch is submitted again. `sweep.17` and `sweep.0-4,9` name tasks of an array: a
                new array with only these tasks, their indices and their parameters.
            priority: Replaces the priority of each job, 1 (highest) to 5.
            env: Variables that each job gets in addition to its own; they override its own.
            idempotency_key: As in `launch`.
            project: Only look for the job in this project.
            timeout_s: How long to wait for the answer.

        Raises:
            NotFoundError: There is no such job.
            BastionError: As for `launch`.
        """
        from bastion.client.code.stored_code import named_spec
        from bastion.client.look.find_job import find_tasks
        from bastion.client.submit.resubmit import changed
        from bastion.records.requests.launch_request import LaunchRequest

        array, tasks = find_tasks(self._published, name, project=project)
        named = name if array is None else array.id
        spec = named_spec(self._published, named, project=project, exact=True)
        again = changed(spec.launch, priority=priority, env=env or {}, tasks=tasks)
        body = LaunchRequest(
            launch=self.checked(again),
            idempotency_key=idempotency_key,
            origin=spec.origin,
            again_of=spec.id,
        )
        return self._submitted(body, timeout_s=timeout_s)

    def _limit_notes(self, launch: Launch) -> tuple[str, ...]:
        """Return which jobs get their `max_runtime` from the quota file, as last read."""
        from bastion.records.requests.quota_limits import limit_notes

        quota = self._quota_file.last
        return () if quota is None else limit_notes(quota, launch.project, self.user, launch)

    def _submitted(
        self, body: LaunchRequest, *, warnings: tuple[str, ...] = (), timeout_s: float
    ) -> LaunchHandle:
        project = body.launch.project
        if body.idempotency_key:
            answer = self._requests.ask_once(project, body, timeout_s=timeout_s)
        else:
            answer = self._requests.ask(project, "launch", body, timeout_s=timeout_s)
        from bastion.client.submit.submission_log import note_submission

        note_submission(answer.launch)
        notes = self._limit_notes(body.launch)
        _say(notes)
        return LaunchHandle(
            self,
            launch=answer.launch,
            project=project,
            jobs=answer.jobs,
            names=tuple(job.name for job in body.launch.jobs),
            warnings=(*notes, *warnings),
            indices=body.launch.tasks,
        )

    def checked(self, launch: Launch | str | Path) -> Launch:
        """
        Return `launch` as it would be sent, without code: with project, names and instance types
        resolved.

        Raises:
            SpecError: It is invalid; the error lists every problem.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.submit.check import check
        from bastion.client.submit.context import read_context
        from bastion.records.coding.codec import encode_request
        from bastion.spec.launch import Launch

        if not isinstance(launch, Launch):
            from bastion.client.submit.launch_file import launch_given

            launch = launch_given(launch)

        context = read_context(
            launch,
            quota=self._quota_file.known(),
            user=self.user,
            project=self.project,
            machines=self._machine_resources,
            find=self._target,
        )
        good = check(launch, context)
        encode_request(good)  # raises before anything is sent if it cannot be stored
        return good

    def what_if(self, launch: Launch | str | Path) -> Outlook:
        """
        Return what would happen if `launch` were submitted now; nothing is submitted.

        Raises:
            NotFoundError: No bastion has ever served this bucket.
            SpecError: It is invalid; the error lists every problem.
            StoreError: The bucket is unreachable.
        """
        from pathlib import Path

        from bastion.client.code.upload import problems_here
        from bastion.client.submit.dry_run import of_launch
        from bastion.scheduler.whatif import Outlook

        good = self.checked(launch)
        if wrong := problems_here(good.code, good.python, url=self.root, start=Path.cwd()):
            return Outlook(problems=tuple(wrong))
        return of_launch(self.store, self._published.pool_records(), good, user=self.user)

    def what_if_quota(self, text: str) -> QuotaOutlook:
        """
        Return what would happen if `text` were the quota file now; nothing is written.

        Raises:
            NotFoundError: No bastion has ever served this bucket.
            SpecError: It is invalid; the error lists every problem with its line.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.submit.dry_run import of_quota

        return of_quota(self.store, self._published.pool_records(), text)

    def bundle(self, path: str | Path) -> ResolvedCode:
        """
        Bundle the folder at `path`, and upload the parts that the bucket does not have yet.

        Raises:
            SpecError: The folder cannot be bundled as it is.
            BastionError: The folder kept changing, or was refused.
            StoreError: The bucket is unreachable.
        """
        from bundler.code import LocalDir

        return self.send_code(LocalDir(str(path)))

    def send_code(
        self, code: object, *, report: Report | None = None, python: PythonEnv | None = None
    ) -> ResolvedCode:
        """
        Upload, resolve or build `code` as needed, and return the exact reference to it.

        A folder without the files that `python` is built from is refused before anything is sent.
        Warnings, such as those about files that may hold secrets, are logged as in `launch`.

        Raises:
            SpecError: The code is specified wrongly.
            BastionError: It could not be bundled, resolved or built.
            StoreError: The bucket is unreachable.
        """
        from pathlib import Path

        from bastion.client.code.upload import resolve_code
        from bundler.progress import unreported

        on_progress = report or unreported
        sent = resolve_code(
            code, self.store, url=self.root, start=Path.cwd(), report=on_progress, python=python
        )
        _say(sent.warnings)
        return sent

    # Change

    def cancel(self, *names: JobNames, project: str = "") -> tuple[str, ...]:
        """
        Request that jobs end, and return their ids; the name of a launch means all its jobs.

        Pass names one by one or in lists; a handle or a view of a job can replace its id. Jobs that
        have already ended are left out, since they cannot change. The result shows them when
        printed, and has them as `ended`.

        Raises:
            NotFoundError: There is no such job.
            SpecError: A name is ambiguous.
            RefusedError: The bastion refused; the message says why.
            TimedOutError: No answer yet; the request is in the inbox and will be processed.
            InDoubtError: The request may have arrived; a retry is harmless.
            StoreError: The bucket is unreachable.
        """
        return self._change("cancel", names, project)

    def hold(self, *names: JobNames, project: str = "") -> tuple[str, ...]:
        """
        Keep waiting jobs from starting until they are released.

        Raises:
            BastionError: As for `cancel`.
        """
        return self._change("hold", names, project)

    def release(self, *names: JobNames, project: str = "") -> tuple[str, ...]:
        """
        Let held jobs start again.

        Raises:
            BastionError: As for `cancel`.
        """
        return self._change("release", names, project)

    def prioritize(self, *names: JobNames, priority: int, project: str = "") -> tuple[str, ...]:
        """Change only the priority, 1 (highest) to 5; raises the same errors as `update`."""
        return self.update(*names, priority=priority, project=project)

    def update(
        self,
        *names: JobNames,
        priority: int | None = None,
        max_runtime: float | str | None = None,
        project: str = "",
    ) -> tuple[str, ...]:
        """
        Change the mutable settings of waiting or running jobs.

        Raises:
            BastionError: As for `cancel`; also SpecError for a value that is not allowed.
        """
        if priority is not None and (type(priority) is not int or not 1 <= priority <= 5):
            raise SpecError(f"priority: {priority!r} is not allowed; 1 (highest) to 5")
        from bastion.records.requests.job_request import UpdateRequest
        from bastion.spec.values.quantity import seconds_of

        limit_s = None if max_runtime is None else seconds_of("max_runtime", max_runtime)
        change = partial(UpdateRequest, priority=priority, max_runtime_s=limit_s)
        return self._change("update", names, project, change)

    def execute(
        self,
        name: str,
        argv: Sequence[str],
        *,
        replica: int = 0,
        host: int = 0,
        process: int = 0,
        max_runtime: float | str = "1h",
        project: str = "",
    ) -> Command:
        """
        Run a command beside the processes of a running job, and return it to follow its output.

        It runs on the machine of one of the job's hosts, as the job's user, in the folder of one of
        its processes, with that process's variables and devices, and in its container if it has
        one. It ends at the latest when that host's processes have ended.

        Args:
            name: The job: an id, or a name that only one active job has.
            argv: The program and its arguments.
            replica: The replica's number.
            host: The host's number, if the replica has several.
            process: The process's number, if the host has several.
            max_runtime: The time after which the command is stopped.
            project: Only look for the job in this project.

        Raises:
            NotFoundError: There is no such job, replica, host or process, the job has ended, or it
                is an array.
            SpecError: An argument is not allowed.
            RefusedError: The bastion refused; the message says why.
            TimedOutError: No answer yet; the request is in the inbox and will be processed.
            InDoubtError: The request may have arrived, and the command may run.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.follow.command import Command, arguments
        from bastion.client.look.find_job import check_takes_command
        from bastion.records.requests.job_request import ExecRequest
        from bastion.spec.values.quantity import seconds_of

        job = self.job(name, project=project)
        check_takes_command(self._published, job, replica=replica, host=host, process=process)
        body = ExecRequest(
            job=job.id,
            argv=arguments(argv),
            replica=replica,
            host=host,
            process=process,
            max_runtime_s=seconds_of("max_runtime", max_runtime),
        )
        answer = self._requests.ask(job.project, "exec", body, timeout_s=ANSWER_TIMEOUT_S)
        return Command(
            self._hasty,
            job.project,
            job.id,
            answer.ulid,
            self.clock,
            poll_s=self.poll_s,
            outage=self._outage,
            is_over=lambda: self._published.result(job.project, job.id) is not None,
        )

    def way_in(self, name: str, *, replica: int = 0, host: int = 0, project: str = "") -> WayIn:
        """
        Return how to reach the machine of a running job's host with the user's own tools.

        Args:
            name: The job.
            replica: The replica's number.
            host: The host's number, if the replica has several.
            project: Only look for the job in this project.

        Raises:
            NotFoundError: There is no such job or host, or its machine cannot be reached.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.look.way_in import way_to

        job = self.job(name, project=project)
        return way_to(self._published, job, replica=replica, host=host)

    # Quota

    def apply_quota(self, text: str, *, replacing: str | None = None) -> Quota:
        """
        Check `text`, and put it in force as the quota file.

        Args:
            text: The new file.
            replacing: The `quota_text` that `text` is based on; None replaces any file.

        Raises:
            SpecError: It is invalid; the error lists every problem with its line. Nothing was
                written.
            ConflictError: The file was changed in the meantime; nothing was written.
            StoreError: The bucket is unreachable; InDoubtError if the file may have been written.
        """
        return self._quota_file.apply(text, replacing=replacing)

    def _change(
        self,
        verb: str,
        names: Iterable[JobNames],
        project: str,
        body_of: ChangeBody | None = None,
    ) -> tuple[str, ...]:
        from bastion.client.look.find_job import each_name, find_all
        from bastion.client.status.display import Changed
        from bastion.records.requests.job_request import JobsRequest

        look = self._published.of_one_look()
        named = (find_all(look, name, project=project, exact=True) for name in each_name(names))
        jobs = {job.id: job for every in named for job in every}
        ids = self._requests.ask_of(
            verb, jobs.values(), body_of or JobsRequest, timeout_s=ANSWER_TIMEOUT_S
        )
        return Changed(ids, {job.id: job.state for job in jobs.values() if job.has_ended})

    def _target(self, name: str, project: str) -> str:
        from bastion.client.look.find_job import find_target

        return find_target(self._published, name, project=project)

    def _machine_resources(self) -> Iterator[Amounts]:
        try:
            yield from (machine.resources for machine in self.pool().machines)
        except NotFoundError:
            return


def _say(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        warn(f"warning: {warning}")
