"""The request to the keeper, from an instruction, a spec and the gang's addresses; pure."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.agent.home import Folders
from bastion.agent.host.container_start import contained
from bastion.agent.keeper.port import AttemptStart, IdleRule, ProcessStart
from bastion.agent.settings import AgentSettings
from bastion.agent.setup.environment import TPUS, Place, environments, gpus_of
from bastion.agent.setup.prepare import Prepared
from bastion.agent.usage.series import Holding
from bastion.catalog import units_a_chip
from bastion.errors import SpecError
from bastion.machine import Start
from bastion.spec.launch import Job, Launch, Process
from bastion.spec.task_job import job_of_task, task_environment


def planned(launch: Launch, start: Start) -> tuple[Launch, Job]:
    """
    Return the launch and the job for `start`; for a task, with its parameters.

    Raises:
        SpecError: The launch has no such job, or its parameters make it invalid.
    """
    if start.index >= len(launch.jobs):
        raise SpecError(f"launch {start.launch} has no job {start.index}")
    job = launch.jobs[start.index] if start.task is None else job_of_task(launch, start.task)
    return launch, job


def attempt_start(
    key: str,
    start: Start,
    plan: tuple[Launch, Job],
    prepared: Prepared,
    settings: AgentSettings,
    *,
    addresses: tuple[str, ...],
    port: int,
) -> AttemptStart:
    """Return the processes of the host of `start`, in containers if it has an image."""
    launch, job = plan
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
        python_path=prepared.recipe.python_path if prepared.recipe else (),
        tpu=settings.tpu,
        chips=sum(
            n // units_a_chip(kind) for kind, n in settings.resources.items() if kind in TPUS
        ),
    )
    envs = environments(start, job, place, task_environment(launch, start.task))
    limit_s = job.max_runtime_s if start.max_runtime_s is None else start.max_runtime_s
    attempt = AttemptStart(
        key=key,
        processes=tuple(
            ProcessStart(argv=process.argv, env=env, cwd=folders.code)
            for process, env in zip(job.processes, envs, strict=True)
        ),
        grace_s=start.grace_s,
        max_runtime_s=limit_s,
        memory_limit_bytes=memory_limit(job.processes, hosts=start.hosts),
        notice_path=folders.notice_file,
        secrets=tuple(prepared.secrets.values()),
        idle=_idle_rule(start, job, in_image=bool(image)),
        on_end=(
            ProcessStart(argv=tuple(job.on_end), env=envs[0], cwd=folders.code)
            if job.on_end
            else None
        ),
        on_end_s=job.on_end_timeout_s,
        hold_s=start.hold_s,
        run_as=settings.run_as,
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


def holding_of(start: Start, *, in_containers: bool) -> Holding:
    """Return what the host of `start` holds, as counted by the drivers of its machine."""
    tpus = (i for kind, indices in start.devices.items() if kind in TPUS for i in indices)
    return Holding(
        devices=(*gpus_of(start.devices), *sorted(tpus)),
        idle_warning_s=start.idle_warning_s,
        stops_idle=start.stops_idle,
        in_containers=in_containers,
    )


def _idle_rule(start: Start, job: Job, *, in_image: bool) -> IdleRule | None:
    # A process in a container is no descendant of the keeper: its CPU use is not seen.
    signs = tuple(sign for sign in job.signs_of_life if not (in_image and sign == "processor"))
    if job.idle_timeout_s is None or not signs:
        return None
    return IdleRule(
        timeout_s=job.idle_timeout_s,
        ends=job.on_idle == "fail",
        signs=signs,
        devices=gpus_of(start.devices),
    )


def memory_limit(processes: Sequence[Process], *, hosts: int) -> int | None:
    """
    Return the bytes that the processes of one host may use together; None if one has no limit.

    They share one limit: memory that one process does not use is available to the others.
    """
    asked = [process.resources.amounts["memory"] for process in processes]
    return sum(asked) // hosts if all(asked) else None


def _home_in_image(folders: Folders, settings: AgentSettings) -> str:
    """Return the HOME to set: none for root, since images define root's; else the code folder."""
    return "" if settings.user == "root" else folders.code


def _chips(settings: AgentSettings) -> int:
    """Return the TPU chips of the machine."""
    has = settings.resources.items()
    return sum(units // units_a_chip(kind) for kind, units in has if kind in TPUS)
