"""What the keeper is asked to start: from an instruction, a spec and where its gang lies; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bastion.agent.containers import contained
from bastion.agent.environment import Place, environments
from bastion.agent.home import Folders
from bastion.agent.keeper_port import AttemptStart, ProcessStart
from bastion.agent.preparing import Prepared
from bastion.agent.settings import AgentSettings
from bastion.errors import SpecError
from bastion.machine import Start
from bastion.spec.launch import Job, Launch, Process
from bastion.spec.task import job_of_task


def job_named(launch: Launch, start: Start) -> Job:
    """
    The job that `start` is about, with the parameters of its task where it is one.

    Raises:
        SpecError: There is no such job, or the parameters make none of it.
    """
    if start.index >= len(launch.jobs):
        raise SpecError(f"launch {start.launch} has no job {start.index}")
    return launch.jobs[start.index] if start.task is None else job_of_task(launch, start.task)


def attempt_start(
    key: str,
    start: Start,
    job: Job,
    prepared: Prepared,
    settings: AgentSettings,
    *,
    addresses: tuple[str, ...],
    port: int,
    told: Mapping[str, str],
) -> AttemptStart:
    """
    The processes of the host that `start` names, in containers where it has an image.

    `told` is what a task knows of its array.
    """
    folders, image = prepared.folders, prepared.image
    place = Place(
        home=_home_in_image(folders, settings) if image else settings.user_home,
        in_image=bool(image),
        user=settings.user,
        notice_file=folders.notice_file,
        marks=folders.marks,
        output=folders.output,
        addresses=addresses,
        port=port,
        secrets=prepared.secrets,
        secret_files=prepared.secret_files,
        python=prepared.python,
    )
    envs = environments(start, job, place, told)
    attempt = AttemptStart(
        key=key,
        processes=tuple(
            ProcessStart(argv=process.argv, env=env, cwd=folders.code)
            for process, env in zip(job.processes, envs, strict=True)
        ),
        grace_s=start.grace_s,
        max_runtime_s=job.max_runtime_s,
        memory_limit_bytes=memory_limit(job.processes, hosts=start.hosts),
        notice_path=folders.notice_file,
        secrets=tuple(prepared.secrets.values()),
    )
    if not image:
        return attempt
    return contained(
        attempt,
        image,
        folders,
        settings,
        processes=job.processes,
        devices=start.devices,
        hosts=start.hosts,
    )


def memory_limit(processes: Sequence[Process], *, hosts: int) -> int | None:
    """
    Bytes that the processes of one host may use together; None where one of them names no limit.

    They share one: memory that one leaves is there for the others, as their replica asked for it.
    """
    asked = [process.resources.amounts["memory"] for process in processes]
    return sum(asked) // hosts if all(asked) else None


def _home_in_image(folders: Folders, settings: AgentSettings) -> str:
    """Images know where root lives; for whom else would they have made a place to write to?"""
    return "" if settings.user == "root" else folders.code
