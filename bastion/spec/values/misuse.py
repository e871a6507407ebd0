"""
Arguments that a spec, or a method about specs, does not have: which of our arguments was meant.

Source: submitit, sky, Ray, kubernetes, dask-jobqueue, Clusterfudge, torchrun, and Slurm's flags.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from bastion.errors import SpecError
from bastion.value import fields
from quota.misfit import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quota.misfit import Misfit

WORDS = {
    "after": "dependencies dependency depends depends_on needs requires",
    "argv": "args cmd command",
    "array": "num_tasks tasks",
    "at_once": "concurrency limit max_concurrent max_parallel parallelism throttle",
    "code": "cwd dir directory folder path repo runtime_env source workdir working_dir",
    "command": "argv args arguments cmd commands entrypoint exec program run script wrap",
    "description": "comment desc notes",
    "env": "env_vars environ environment environment_variables envs variables",
    "exclusive": "whole_machine whole_node",
    "finished": "all ended history limit",
    "grace": "grace_s signal termination_grace_period termination_grace_period_seconds",
    "high": "max maximum stop upper",
    "hostnames": "host hostname hosts machine machines nodelist",
    "image": "container container_image docker docker_image image_id",
    "instance_type": "accelerator_type machine_type topology tpu tpu_type",
    "jobs": "groups job tasks",
    "lock": "file packages path requirements",
    "low": "min minimum start lower",
    "max_runtime": "deadline duration limit max_runtime_s max_time time time_limit timeout"
    " timeout_min timeout_s walltime",
    "name": "experiment experiment_name id job job_id job_name names title",
    "names": "id ids job job_id jobs name",
    "notify": "callbacks mail_user slack webhook webhooks",
    "of": "choices options values",
    "on_failure": "on_replica_failure restart_policy",
    "pool": "node_pool partition",
    "priority": "nice prio priority_class priority_class_name qos",
    "processes": "containers process steps",
    "project": "account namespace project_id queue",
    "PythonEnv.python": "version",
    "python": "conda packages pip python_env requirements",
    "replicas": "count instances n nnodes nodes ntasks num_nodes num_replicas num_workers"
    " parallelism world_size workers",
    "resources": "accelerators devices gres requests resource",
    "retries": "backoff_limit max_restarts max_retries num_retries requeue restarts retry",
    "root": "address bucket endpoint host path place server uri url",
    "same": "colocate placement required_topology switches",
    "secrets": "secret",
    "shell": "use_shell",
    "states": "state status statuses",
    "tail": "last lines n num_lines",
    "tasks": "array count indices n size",
    "timeout_s": "limit",
    "to": "channel name target url webhook",
    "user": "owner user_id username",
    "when_busy": "enqueue_if_busy enqueue_if_cluster_busy",
}
"""Our argument, and its names in other systems."""

_DEVICES = re.compile(
    r"(?:n|num)?_?(?:gpus?|cpus?|vcpus?|mem|memory|ram|tpus?)(?:_per_\w+|_count|_gb|_mb)?"
    r"|[abghltv]\d+\w*"
)
"""Words for amounts of a resource, all of which `Resources` accepts."""
_SPOKEN = re.compile(r"^(?:n|num)_|^n(?=[gc]pus)|(?<=[a-z])s$|_per_\w+$|_count$|_[gm]b$")
"""The parts of these words around the name of the resource."""

_PLAIN = re.compile(r"[\w./=:@ -]+")
"""A command without shell syntax."""
_FEW, _SHORT = 9, 60
"""Most words, or characters, of a command that an error repeats."""
_HELLO = "['python3', 'train.py']"
EXAMPLES = {
    "After": "After('train-x7k2', when='any')",
    "Array": "Array('0-99%10')",
    "Choice": "Choice(['adam', 'sgd'])",
    "Client": "Client('gs://bucket/bastion')",
    "Job": f"Job(processes=[Process({_HELLO})])",
    "Launch": f"Launch(name='train', jobs=[Job(processes=[Process({_HELLO})])])",
    "launch": f"launch(Launch(name='train', jobs=[Job(processes=[Process({_HELLO})])]))",
    "LocalDir": "LocalDir('.')",
    "LogUniform": "LogUniform(1e-5, 1e-1)",
    "Notify": "Notify('team-slack', on=['failed'])",
    "Process": f"Process({_HELLO}, resources=Resources(h100=2))",
    "PythonEnv": "PythonEnv('requirements.txt')",
    "Resources": "Resources(h100=2, memory='64GiB')",
    "Sample": "Sample(20, seed=0, draw={'lr': LogUniform(1e-5, 1e-1)})",
    "Secret": "Secret('HF_TOKEN')",
    "Sweep": "Sweep(grid={'lr': [0.1, 0.01]})",
    "Uniform": "Uniform(0.0, 1.0)",
    "Where": "Where(pool='a100')",
}
"""An example of each value, and of submitting a launch."""
_NEEDED = {
    "argv": f"the command, as {_HELLO}",
    "command": f"what to run, as Process({_HELLO})",
    "count": "how many points to draw, as 20",
    "directory": "the folder to write to, as 'outputs'",
    "draw": "how each parameter is drawn, as draw={'lr': LogUniform(1e-5, 1e-1)}",
    "high": "the highest number",
    "job": "the job to wait for, as After('train-x7k2')",
    "jobs": f"its jobs, as jobs=[Job(processes=[Process({_HELLO})])]",
    "Launch.name": "the name of the launch, as name='train'",
    "Secret.name": "its variable, as 'HF_TOKEN'",
    "launch": "what to submit: a Launch, or the path of its TOML file",
    "low": "the lowest number",
    "name": "the name or the id of a job",
    "of": "the values to choose from, as ['adam', 'sgd']",
    "path": "a folder, as '.'",
    "priority": "1 (highest) to 5",
    "processes": f"what each replica runs, as processes=[Process({_HELLO})]",
    "seed": "a whole number; the same seed draws the same points",
    "tasks": "the indices, as '0-99', or how many tasks there are, as 100",
    "text": "the text of a quota file",
    "to": "the name or the URL of a webhook",
}
"""The meaning of each argument that has no default."""


def told(misfit: Misfit, made: Mapping[str, type]) -> SpecError:
    """
    Return the error for unexpected or missing arguments: what each was meant to be.

    Args:
        misfit: The arguments.
        made: The values of specs, by name.
    """
    elsewhere = partial(_elsewhere, _kinds(misfit, made))
    problems, is_clear = misfit.problems(WORDS, _NEEDED, elsewhere)
    example = EXAMPLES.get(misfit.called, "")
    if is_clear or not misfit.taken:
        return SpecError(*problems, hint=f"as {example}" if example else "")
    names = (*([f"*{misfit.any_number}"] if misfit.any_number else []), *misfit.taken)
    takes = f"{misfit.called} takes {', '.join(names)}"
    return SpecError(*problems, hint=f"{takes}; as {example}" if example else takes)


def _elsewhere(kinds: dict[str, set[str]], misfit: Misfit, word: str, given: object) -> str:
    """Return what to write for an argument of another value; empty if it is none."""
    plain = word.lower()
    if misfit.called == "Sweep":
        return f"grid={{{word!r}: [...]}}"
    if kinds and "Wanted" not in kinds and _DEVICES.fullmatch(plain):
        kind = _SPOKEN.sub("", _SPOKEN.sub("", plain))
        return _nested(misfit.called, "Process", f"resources=Resources({kind}={shown(given)})")
    meant = [plain, *(name for name, others in WORDS.items() if plain in others.split())]
    for name in meant:
        for kind, its in kinds.items():
            if name in its:
                return _nested(misfit.called, kind, _written(name, given))
    return ""


def _kinds(misfit: Misfit, made: Mapping[str, type]) -> dict[str, set[str]]:
    """Return the values that an argument may be meant for, each with its arguments."""
    if "wanted" in misfit.taken:
        return {"Wanted": {"replica", "process", "attempt", "tail", "since", "grep"}}
    if misfit.called not in ("Launch", "Job", "Process") and "launch" not in misfit.taken:
        return {}
    is_inside = misfit.called == "Process"
    names = ("Job", "Launch", "Where") if is_inside else ("Launch", "Job", "Process", "Where")
    found = {name: {each.name for each in fields(made[name])} for name in names}
    found["Launch"].add("image")
    return found


def _written(name: str, given: object) -> str:
    """Return the argument `name` as code, with the given value if possible."""
    if name == "command":
        return _command(given)
    whole = {
        "code": "code=LocalDir('.')",
        "image": "code=Image('registry.example/team/train:1.0')",
        "python": "python=PythonEnv('requirements.txt')",
        "after": "after=['train-x7k2']",
        "array": f"array=Array({given!r})"
        if isinstance(given, int | str)
        else "array=Array('0-99')",
        "resources": f"resources={EXAMPLES['Resources']}",
        "sweep": f"sweep={EXAMPLES['Sweep']}",
        "where": f"where={EXAMPLES['Where']}",
        "jobs": "jobs=[...]",
        "processes": "processes=[...]",
        "hostnames": "hostnames=['node-1']",
    }
    return whole.get(name) or f"{name}={shown(given)}"


def _command(given: object) -> str:
    """Return a command as a process takes it; an example if it is too long or not text."""
    if isinstance(given, list | tuple) and all(isinstance(word, str) for word in given):
        return repr(list(given)) if 0 < len(given) < _FEW else _HELLO
    if not isinstance(given, str) or not 0 < len(given) < _SHORT:
        return _HELLO
    return repr(given.split()) if _PLAIN.fullmatch(given) else f"{given!r}, shell=True"


_INSIDE = {
    "Wanted": ("wanted={}", "logs"),
    "Where": ("where={}", "Launch"),
    "Process": ("processes=[{}]", "Job"),
    "Job": ("jobs=[{}]", "Launch"),
}


def _nested(called: str, kind: str, written: str) -> str:
    """Return the value with the argument, nested in the values between it and `called`."""
    if kind == called:
        return written
    alone = inside = f"{kind}({written})"
    while kind in _INSIDE:
        shape, kind = _INSIDE[kind]
        argument = shape.format(inside)
        if kind == called:
            return argument
        inside = f"{kind}({argument})"
    return inside if alone.startswith("Where") else alone
