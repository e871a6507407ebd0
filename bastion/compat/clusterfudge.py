"""
Run launch scripts that were written for Clusterfudge, with one line changed.

    from bastion.compat import clusterfudge

    client = clusterfudge.Client()
    client.create_launch(clusterfudge.CreateLaunchRequest(...))

Names, arguments and defaults are Clusterfudge's. `Client()` connects to the bastion that the
command line uses. Three defaults differ from those of `bastion.Launch`: a launch that cannot start
immediately is refused, the other replicas keep running when one fails, and processes see the
`CLUSTERFUDGE_*` variables. The values are mutable, since scripts change them. `create_launch`
checks everything before it sends anything.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from bastion.client import Client as BastionClient
from bastion.client import JobView, LaunchHandle
from bastion.compat.clusterfudge_launch import as_written, to_launch, type_here, types_in
from bastion.compat.clusterfudge_values import (
    ClusterfudgeConfig,
    CreateLaunchRequest,
    GitRepo,
    Job,
    LaunchStatus,
    LocalDir,
    OnReplicaFailureOtherReplicasAreStopped,
    OnReplicaFailureOtherReplicasContinue,
    Process,
    QueueingBehaviour,
    Resources,
)
from bastion.errors import (
    BastionError,
    NotFoundError,
    RefusedError,
    SpecError,
    in_notebooks,
)
from bastion.spec.names import launch_uuid
from bundler.code import LocalDir as Folder
from bundler.errors import BundleError
from bundler.root import find_root

__all__ = [
    "Client",
    "ClusterfudgeConfig",
    "CreateLaunchRequest",
    "CreatedLaunch",
    "GitRepo",
    "Job",
    "LaunchDetails",
    "LaunchStatus",
    "LocalDir",
    "OnReplicaFailureOtherReplicasAreStopped",
    "OnReplicaFailureOtherReplicasContinue",
    "Process",
    "QueueingBehaviour",
    "Resources",
    "SchedulingError",
    "to_launch",
]


def __getattr__(name: str) -> object:
    from difflib import get_close_matches

    near = [] if name.startswith("_") else get_close_matches(name, __all__, n=1)
    nearest = f"; did you mean {near[0]}?" if near else ""
    raise in_notebooks(AttributeError(f"clusterfudge has no attribute {name!r}{nearest}"))


class SchedulingError(RefusedError):
    """
    The bastion refused the launch: nothing is free now, or the launch can never run.

    Args:
        message: The bastion's answer.
        hint: What to do about it.
        scheduling_log: For every machine, what was requested, what is free, and why nothing starts
            there.
    """

    def __init__(self, message: str, *, hint: str = "", scheduling_log: str = "") -> None:
        super().__init__(message, hint=hint)
        self.scheduling_log = scheduling_log or message

    def prettyprint(self) -> None:
        """Write the message and the log to standard output, as scripts expect."""
        rule = "-" * 15
        log = f"Scheduling log:\n{rule}\n{self.scheduling_log}\n{rule}\n"
        sys.stdout.write(f"\n{self.message}\n\n{log}")


@dataclasses.dataclass(kw_only=True)
class LaunchDetails:
    """The current state of a launch; `launch` is the value itself, which scripts access."""

    id: str
    """Its UUID, as in `CLUSTERFUDGE_LAUNCH_ID`."""
    launch_id: str
    """Its id here."""
    status: LaunchStatus
    launched_by: str
    hostnames: tuple[str, ...]
    jobs: tuple[JobView, ...]

    @property
    def launch(self) -> LaunchDetails:
        """This value."""
        return self


class CreatedLaunch:
    """
    A launch that the bastion has accepted.

    Args:
        request: The request that created it.
        handle: Bastion's own handle of the launch, to wait for it, read it or cancel it.
    """

    def __init__(self, request: CreateLaunchRequest, handle: LaunchHandle) -> None:
        self.id = launch_uuid(handle.id)
        self.launch_id = handle.id
        self.title = request.name or ""
        self.description = request.description or ""
        self.handle = handle

    def __repr__(self) -> str:
        return f"CreatedLaunch(launch_id={self.launch_id!r})"


class Client:
    """
    A user's side of one bastion.

    Args:
        base_url: The root of the bastion. Default: the bastion that the command line uses.
        api_key: Not supported: the bucket's permissions decide what a user may do.

    Raises:
        SpecError: An API key is given, or no bastion is named anywhere.
        StoreRefusedError: There can be no bastion at this root.
    """

    def __init__(self, base_url: str | None = None, api_key: str | None = None) -> None:
        if api_key is not None:
            raise SpecError(
                "api_key: a bastion takes none; the bucket decides what a user may do",
                hint="leave it out; gcloud auth or aws configure say who you are to the bucket",
            )
        if base_url is not None and "://" not in base_url:
            raise SpecError(
                f"base_url: {base_url!r} is not the root of a bastion",
                hint="leave it out, or name a root such as gs://bucket/shared-bastion",
            )
        self._client = BastionClient(base_url or "")

    def create_launch(self, create_launch_request: CreateLaunchRequest) -> CreatedLaunch:
        """
        Submit a launch, and wait until the bastion has accepted it.

        Raises:
            SpecError: It is invalid, has fields without a counterpart, or its folder cannot be
                bundled; the error (a ValueError) lists every problem.
            SchedulingError: The bastion refused it; the error says why.
            TimedOutError: No answer yet; the launch is in the inbox and will be read.
            BastionError: Its repository could not be resolved.
            StoreError: The bucket is unreachable.
        """
        request = create_launch_request
        here = self._types(request)
        launch = to_launch(request, here)
        is_folder = isinstance(launch.code, Folder)
        if is_folder:
            launch = dataclasses.replace(launch, code=_folder())
        try:
            return CreatedLaunch(request, self._client.launch(launch))
        except RefusedError as error:
            log = "\n".join((error.message, *error.output))
            told = as_written(error.message, request, here)
            raise SchedulingError(told, hint=error.hint, scheduling_log=log) from None
        except SpecError as error:
            problems = (as_written(each, request, here) for each in error.problems)
            raise SpecError(*problems, hint=error.hint) from None
        except BastionError as error:
            # In Clusterfudge, a folder that cannot be bundled is a ValueError.
            if is_folder and type(error) is BastionError:
                text = f"deployment: {error.message.removeprefix('code: ')}"
                raise SpecError(text, hint=error.hint) from None
            raise

    def stop_launch(self, launch_id: str) -> None:
        """
        Cancel the jobs of a launch; a launch that has ended stays as it is.

        Args:
            launch_id: The `id` or `launch_id` of a created launch.

        Raises:
            NotFoundError: There is no such launch.
            BastionError: As for `bastion.Client.cancel`.
        """
        jobs = [job.id for job in self._jobs(launch_id) if not job.has_ended]
        if jobs:
            self._client.cancel(jobs)

    def get_launch_details(self, launch_id: str) -> LaunchDetails:
        """
        Return the current state of a launch.

        Raises:
            NotFoundError: There is no such launch.
            StoreError: The bucket is unreachable.
        """
        jobs = self._jobs(launch_id)
        return LaunchDetails(
            id=launch_uuid(jobs[0].launch),
            launch_id=jobs[0].launch,
            status=_status(jobs),
            launched_by=jobs[0].user,
            hostnames=tuple(dict.fromkeys(name for job in jobs for name in job.machines)),
            jobs=jobs,
        )

    def launch_workstation(self) -> None:
        """
        Workstations have no counterpart.

        Raises:
            SpecError: Always; the hint names an alternative.
        """
        raise SpecError(
            "launch_workstation: a bastion has no workstations",
            hint="bastion notebook runs Jupyter as a job; bastion ssh JOB opens a shell beside one",
        )

    def _jobs(self, launch_id: str) -> tuple[JobView, ...]:
        known = self._client.jobs(finished=_FINISHED)
        found = tuple(job for job in known if launch_id in (job.launch, launch_uuid(job.launch)))
        if not found:
            raise NotFoundError(f"no launch {launch_id!r}", hint="bastion list --all shows them")
        return found

    def _types(self, request: CreateLaunchRequest) -> frozenset[str]:
        """Return the types here, if `request` names one that has another name in the catalog."""
        types: set[str] = set()
        if all(type_here(name, ()) == name for name in types_in(request)):
            return frozenset()
        try:
            types.update(self._client.quota().types)
            types.update(
                kind for each in self._client.pool().machines for kind in each.resources.types()
            )
        except BastionError:
            pass  # the launch's own check reports problems with them
        return frozenset(types)


_FINISHED = 1000
"""Ended jobs that are searched for a launch."""
_STOPS = {
    "failed": LaunchStatus.LAUNCH_STATUS_FAILED,
    "cancelled": LaunchStatus.LAUNCH_STATUS_STOPPED,
    "succeeded": LaunchStatus.LAUNCH_STATUS_COMPLETED,
}


def _status(jobs: Sequence[JobView]) -> LaunchStatus:
    """Return the state of a launch from its jobs: running ones count before waiting and ended."""
    active = [job.state for job in jobs if not job.has_ended]
    if any(state not in ("queued", "held", "preempted") for state in active):
        return LaunchStatus.LAUNCH_STATUS_RUNNING
    if active:
        return LaunchStatus.LAUNCH_STATUS_QUEUED
    ended = {_STOPS.get(job.state, LaunchStatus.LAUNCH_STATUS_FAILED) for job in jobs}
    return next(status for status in _STOPS.values() if status in ended)


def _folder() -> Folder:
    """Return the tree around the current folder; without one, the script's folder."""
    try:
        find_root(Path.cwd())
    except BundleError:
        script = getattr(sys.modules["__main__"], "__file__", None)
        return Folder(str(Path(script).resolve().parent if script else Path.cwd()))
    return Folder()
