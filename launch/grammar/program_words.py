"""
Whole commands of other programs as ours: their verbs, and the meaning of each flag.

Source: sbatch(1), srun(1), kubectl(1); `ray job submit --help`, `ray submit --help`; `sky launch
--help`; `dstack apply --help`; `xpk workload create --help`; `axlearn gcp launch --help`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from quota.pattern import pattern

_YAML = (".yaml", ".yml")
_JOINED = pattern(r"-[A-Za-z]\d\S*")
_MORE = "more: bastion help come-from-another-system"
_IMAGE = "--bundler_type=image --bundler_spec=ref={}"


class Program(NamedTuple):
    """The words of one program. A flag can be limited to one verb of ours, as in `list -w`."""

    verbs: Mapping[str, str]
    """Its verbs, and ours."""
    takes: Mapping[str, str]
    """Its flags with a value, and ours: `JOB` is a name, `COMMAND` a command, empty drops it."""
    alone: Mapping[str, str]
    """Its flags without a value, and ours; empty drops it."""


_SLURM_TAKES = {
    **dict.fromkeys(("-N", "-c", "-G", "-t", "-J", "-d", "-D", "--wrap"), "{flag}"),
    **dict.fromkeys(("-n", "--ntasks"), "--replicas"),
    **dict.fromkeys(("-a", "--array"), "--array"),
    **dict.fromkeys(("-p", "--partition"), "--pool"),
    **dict.fromkeys(("-A", "--account"), "--project_id"),
    **dict.fromkeys(("-w", "--nodelist"), "--hostname"),
    **dict.fromkeys(("-o", "--output", "-e", "--error", "-i", "--input", "-x", "--exclude"), ""),
    **dict.fromkeys(("--mail_type", "--mail_user", "--ntasks_per_node", "--cpu_bind"), ""),
    **dict.fromkeys(("--mpi", "-q", "--qos", "--open_mode"), ""),
    "exec --jobid": "JOB",
}
_SLURM_ALONE = {
    **dict.fromkeys(("-l", "--label", "-u", "--unbuffered", "--overlap", "-K", "-s"), ""),
    **dict.fromkeys(("--requeue", "-v", "-Q", "--pty"), ""),
    "--exclusive": "--exclusive",
    "--test_only": "--dry_run",
    "--parsable": "-q",
}
_UNITS = {"--cpus": "", "--memory": "GiB"}
"""The unit of an amount in SkyPilot, by flag."""
_PODS = ("pods", "pod", "po", "jobs", "job", "workloads", "workload")
_PROGRAMS = {
    "kubectl": Program(
        verbs={
            **{f"get {pods}": "list" for pods in _PODS},
            **{f"describe {pods}": "show JOB" for pods in _PODS},
            **{f"delete {pods}": "cancel JOB" for pods in _PODS},
            "delete": "cancel JOB",
            "get events": "events",
            "get resourcequota": "quota show",
            "get clusterqueue": "quota show",
            "logs": "logs JOB",
            "exec": "exec JOB -- COMMAND",
            "attach": "logs -f JOB",
            "cp": "fetch JOB",
            "wait": "wait JOB",
            "top pods": "top",
            "top pod": "top",
            "top": "top",
            "run": "launch --name NAME -- COMMAND",
            "create job": "launch --name NAME -- COMMAND",
            "apply": "launch -- COMMAND",
            "create": "launch -- COMMAND",
            "rollout restart": "rerun JOB",
            "drain": "drain JOB",
        },
        takes={
            **dict.fromkeys(("-n", "--namespace"), "--project_id"),
            **dict.fromkeys(("-c", "--container", "-l", "--selector", "--field_selector"), ""),
            **dict.fromkeys(("--context", "--kubeconfig", "--grace_period", "--for"), ""),
            **dict.fromkeys(("--restart", "--sort_by", "--since_time"), ""),
            **dict.fromkeys(("-o", "--output"), "-o"),
            **dict.fromkeys(("--tail", "--since", "--timeout"), "{flag}"),
            "--image": _IMAGE,
        },
        alone={
            **dict.fromkeys(("-i", "-t", "-it", "-ti", "--stdin", "--tty", "--rm"), ""),
            **dict.fromkeys(("-A", "--all_namespaces", "--all_containers", "--timestamps"), ""),
            **dict.fromkeys(("--force", "--now", "--ignore_daemonsets", "--prefix"), ""),
            **dict.fromkeys(("--delete_emptydir_data", "--ignore_not_found", "-p"), ""),
            **dict.fromkeys(("--previous", "--wait"), ""),
            **dict.fromkeys(("list -w", "list --watch"), "--watch"),
            **dict.fromkeys(("logs -f", "logs --follow"), "-f"),
            "cancel --all": "--mine",
        },
    ),
    "ray": Program(
        verbs={
            "job submit": "launch -- COMMAND",
            "submit": "launch -- COMMAND",
            "exec": "run -- COMMAND",
            "job list": "list",
            "job logs": "logs JOB",
            "job status": "show JOB",
            "job stop": "cancel JOB",
        },
        takes={
            "--working_dir": "--code",
            "--submission_id": "--name",
            "--job_id": "--name",
            "--entrypoint_num_gpus": "--gpus",
            "--entrypoint_num_cpus": "--cpus",
            **dict.fromkeys(("--address", "--runtime_env", "--runtime_env_json"), ""),
            **dict.fromkeys(("--metadata_json", "--entrypoint_memory", "--cluster_name"), ""),
        },
        alone={
            **dict.fromkeys(("--no_wait", "--verbose", "-v", "--start", "--stop"), ""),
            **dict.fromkeys(("logs -f", "logs --follow"), "-f"),
        },
    ),
    "sky": Program(
        verbs={
            "launch": "launch -- COMMAND",
            "jobs launch": "launch -- COMMAND",
            "exec": "exec JOB -- COMMAND",
            "logs": "logs JOB",
            "jobs logs": "logs JOB",
            "queue": "list",
            "jobs queue": "list",
            "status": "list",
            "cancel": "cancel JOB",
            "jobs cancel": "cancel JOB",
            "jobs dashboard": "web --open",
            "api status": "status",
            "api info": "status",
            **dict.fromkeys(("api start", "local up"), "up"),
            **dict.fromkeys(("api stop", "local down"), "down"),
            "start": "rerun JOB",
            "stop": "cancel JOB",
            "down": "cancel JOB",
        },
        takes={
            **dict.fromkeys(("cancel -n", "cancel --name"), "JOB"),
            **dict.fromkeys(("-c", "--cluster", "-n", "--name"), "--name"),
            **dict.fromkeys(("-i", "--idle_minutes_to_autostop", "--disk_size", "--ports"), ""),
            **dict.fromkeys(("--cloud", "--infra", "--region", "--zone", "--disk_tier"), ""),
            **dict.fromkeys(("exec --gpus", "exec --num_nodes", "exec --env"), ""),
            "--image_id": _IMAGE,
        },
        alone={
            **dict.fromkeys(("-y", "--yes", "-d", "--detach_run", "-s", "--detach_setup"), ""),
            **dict.fromkeys(("--use_spot", "--no_use_spot", "--down", "-r"), ""),
            **dict.fromkeys(("--retry_until_up", "--no_setup", "--fast", "--refresh"), ""),
            **dict.fromkeys(("--follow", "--no_follow", "--controller", "--async"), ""),
            "--skip_finished": "",
            **dict.fromkeys(("logs -s", "logs --sync_down"), "--download=."),
            **dict.fromkeys(("cancel -a", "cancel --all"), "--mine"),
            **dict.fromkeys(("list -a", "list --all"), "-a"),
        },
    ),
    "dstack": Program(
        verbs={
            "apply": "launch -- COMMAND",
            "run": "launch -- COMMAND",
            "ps": "list",
            "logs": "logs JOB",
            "attach": "logs -f JOB",
            "stop": "cancel JOB",
        },
        takes={"-n": "--name", "--name": "--name", "--gpu": "--gpus", "--project": "--project_id"},
        alone={
            **dict.fromkeys(("-y", "--yes", "-d", "--detach", "-x", "--abort"), ""),
            **dict.fromkeys(("list -a", "list --all"), "-a"),
            **dict.fromkeys(("list -w", "list --watch"), "--watch"),
        },
    ),
    "xpk": Program(
        verbs={
            "workload create": "launch -- COMMAND",
            "workload list": "list",
            "workload delete": "cancel JOB",
        },
        takes={
            "cancel --workload": "JOB",
            "--workload": "--name",
            "--command": "COMMAND",
            "--tpu_type": "--instance_type",
            "--num_slices": "--replicas",
            "--num_nodes": "--replicas",
            "--docker_image": _IMAGE,
            "--base_docker_image": _IMAGE,
            **dict.fromkeys(("--cluster", "--project", "--zone", "--device_type"), ""),
        },
        alone={"--force": ""},
    ),
    "sbatch": Program(
        verbs={"": "launch FILE"}, takes=_SLURM_TAKES, alone={**_SLURM_ALONE, "-W": "--watch"}
    ),
    "srun": Program(verbs={"": "run -- COMMAND"}, takes=_SLURM_TAKES, alone=_SLURM_ALONE),
    "gcp": Program(
        verbs={
            "launch run": "launch -- COMMAND",
            "launch list": "list",
            "launch stop": "cancel JOB",
            "tpu list": "machines",
            "vm list": "status",
        },
        takes={"cancel --name": "JOB"},
        alone={},
    ),
}


def program_command(program: str, words: Sequence[str]) -> str:
    """
    Return our command, without `bastion`, for one of another program; empty if it is unknown.

    The words do not include those after `--`; `-- COMMAND` at the end is their place.
    """
    table = _PROGRAMS.get(program)
    if table is None:
        return ""
    if program == "sky":
        words = _whole_amounts(words)
    if program == "ray":
        words = [word for word in words if not word.endswith(_YAML)]  # the file of a cluster
    for size in (2, 1, 0):
        if ours := table.verbs.get(" ".join(words[:size]).lower()):
            break
    else:
        return ""
    verb = ours.split()[0]
    flags, names, command = _parts(table, ours, words[size:])
    if any(word.endswith(_YAML) for word in (*words, *command)) and "COMMAND" in ours:
        return f"launch --code=. -- COMMAND; {_MORE}"
    names = _plain_names(program, verb, names)
    if verb == "cancel" and not names and "--mine" not in flags:
        return ""  # never suggest to cancel jobs that were not named
    if verb == "list" and names and (program == "kubectl" or words[0].lower() == "status"):
        return shlex.join(["show", *names, *flags])
    return _written(ours, flags, names, command)


def _whole_amounts(words: Sequence[str]) -> list[str]:
    """Return SkyPilot amounts as ours: `4+` is at least four, and memory is in GiB."""
    told: list[str] = []
    for word in words:
        flag, equals, value = word.rpartition("=")
        unit = _UNITS.get(flag or (told[-1] if told else ""))
        number = value.removesuffix("+")
        is_amount = unit is not None and number.isdecimal()
        told.append(f"{flag}{equals}{number}{unit}" if is_amount else word)
    return told


def slurm_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the leading flags of `srun` words, as ours, and the command after them."""
    flags, _, command = _parts(_PROGRAMS["srun"], "run -- COMMAND", words)
    return flags, command


def _parts(
    table: Program, ours: str, words: Sequence[str]
) -> tuple[list[str], list[str], list[str]]:
    """Return the flags, as ours, the names, and the words of a command."""
    verb = ours.split()[0]
    runs = "COMMAND" in ours or "FILE" in ours
    most = sum(place in ours for place in ("JOB", "NAME")) if runs else len(words)
    flags: list[str] = []
    names: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if _JOINED.fullmatch(word):  # -N2
            word, left = word[:2], [word[2:], *left]
        if not word.startswith("-"):
            if len(names) == most:
                return flags, names, [word, *left]
            names.append(word)
            continue
        flag, equals, value = word.partition("=")
        if (alone := _look(table.alone, verb, flag)) is not None:
            flags += [alone] if alone else []
            continue
        known = _look(table.takes, verb, flag)
        if not equals and left and not left[0].startswith("-") and _has_value(known, flag):
            value = left.pop(0)
        if known == "JOB":
            names.append(value)
        elif known == "COMMAND":
            return flags, names, shlex.split(value)
        elif known is None or known == "{flag}":
            flags += [word] if equals or not value else [flag, value]
        elif known:
            flags += _renamed(known, value, equals)
    return flags, names, []


def _look(known: Mapping[str, str], verb: str, flag: str) -> str | None:
    return known.get(f"{verb} {flag}", known.get(flag))


def _has_value(known: str | None, flag: str) -> bool:
    """Whether the next word is its value; an unknown long flag is taken for one of ours."""
    return known is not None or flag.startswith("--") or flag in ("-e", "-f")


def _renamed(ours: str, value: str, equals: str) -> list[str]:
    if ours == "-o":
        value = "json" if value.startswith(("json", "yaml")) else value
        return [ours, value] if value in ("json", "wide", "name") else []
    if "{}" in ours:
        return ours.format(value).split()
    return [f"{ours}={value}"] if equals else [ours, value]


def _plain_names(program: str, verb: str, names: Sequence[str]) -> list[str]:
    """Return the names without prefixes and suffixes of another program."""
    if program == "kubectl":
        names = [name.rpartition("/")[2] if verb != "fetch" else name for name in names]
        return [name.partition(":")[0] or name if verb == "fetch" else name for name in names]
    if program == "sky" and len(names) > 1:
        names = [name for name in names if not name.isdecimal()]  # a job of a cluster
    return list(names)


def _written(ours: str, flags: list[str], names: list[str], command: list[str]) -> str:
    """Return our command with these flags, names and words in their places."""
    words = ours.split()
    if "NAME" in words:
        words[words.index("--name") : words.index("NAME") + 1] = ["--name", *names[:1]]
        words = words if names else [word for word in words if word != "--name"]
    if "JOB" in words:
        at = words.index("JOB")
        words[at : at + 1] = names or ([] if "--mine" in flags else ["JOB"])
    if "FILE" in words:
        has_command = any(flag.startswith("--wrap") for flag in flags)
        return shlex.join(["launch", *flags, *(command or ["FILE.sbatch"] * (not has_command))])
    if "COMMAND" not in words:
        return shlex.join([*words, *flags])
    if len(command) == 1 and " " in command[0]:
        command = shlex.split(command[0])
    if command and command[0].endswith(".py"):
        command = ["python3", *command]
        has_code = any(flag.startswith(("--code", "--workdir")) for flag in flags)
        flags = flags if has_code else [*flags, "--code=."]
    behind = words.index("--")
    return shlex.join([*words[:behind], *flags, "--", *(command or ["COMMAND"])])
