"""The job that one task of an array runs: its parameters in commands and variables."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bastion.spec.arrays.sweep import Setting, text_of
from bastion.spec.arrays.template import filled
from bastion.spec.launch import Job, Launch
from bastion.value import replace


def parameters(launch: Launch, task: int) -> Mapping[str, Setting]:
    """Return the parameters of a task of `launch`; empty without a sweep."""
    return launch.sweep.point(task) if launch.sweep is not None else {}


def task_environment(launch: Launch, task: int | None) -> dict[str, str]:
    """Return the variables about the array for processes of a task; empty if there is none."""
    if task is None or launch.tasks is None:
        return {}
    settings = parameters(launch, task)
    told = {
        "BASTION_TASK_INDEX": str(task),
        "BASTION_TASK_COUNT": str(len(launch.tasks)),
        "BASTION_TASK_NUMBER": str(launch.tasks.place_of(task)),
    }
    if settings:
        told["BASTION_PARAMS"] = json.dumps(settings)
    return told | {
        f"BASTION_PARAM_{name.upper()}": text_of(setting) for name, setting in settings.items()
    }


def job_of_task(launch: Launch, task: int) -> Job:
    """
    Return the job of a task of `launch`, with its parameters in commands and variables.

    Raises:
        SpecError: With these parameters the job is invalid: a program without a name.
    """
    (job,) = launch.jobs
    if launch.sweep is None:
        return job
    settings = {name: text_of(setting) for name, setting in launch.sweep.point(task).items()}

    def of(env: Mapping[str, str]) -> dict[str, str]:
        return {name: filled(text, settings) for name, text in env.items()}

    processes = tuple(
        replace(
            process,
            command=(
                filled(process.command[0], settings)
                if process.shell
                else tuple(filled(word, settings) for word in process.command)
            ),
            env=of(process.env),
        )
        for process in job.processes
    )
    on_end = tuple(filled(word, settings) for word in job.on_end)
    return replace(job, processes=processes, env=of(job.env), on_end=on_end)
