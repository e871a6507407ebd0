"""
Slurm commands whose flags or words determine the equivalent command of ours.

Source: squeue(1), scancel(1), sinfo(1), sacct(1), sstat(1), sprio(1), srun(1), scontrol(1).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from launch.grammar.program_words import slurm_flags
from launch.grammar.states import own_state
from quota.pattern import pattern

_FLAGS = {
    ("squeue", "-j --job --jobs"): "show JOB",
    ("squeue", "-n --name"): "show JOB",
    ("squeue", "-u --user"): "list --user_id=USER",
    ("squeue", "--me"): "list --mine",
    ("squeue", "-t --states"): "list --state=STATE",
    ("squeue", "-A --account"): "list --project_id=PROJECT",
    ("squeue", "-i --iterate"): "list --watch",
    ("scancel", "-u --user --me"): "cancel --mine",
    ("scancel", "-n --name --jobname"): "cancel JOB",
    ("scancel", "-t --state"): "cancel --mine --state=STATE",
    ("sinfo", "-N --Node -n --nodes"): "machines",
    ("sacct", "-j --jobs"): "show JOB",
    ("sacct", "--name"): "history --name=JOB",
    ("sacct", "-s --state"): "history --state=STATE",
    ("sacct", "-u --user"): "history --user_id=USER",
    ("sacct", "-S --starttime"): "history --since=DATE",
    ("sacct", "-E --endtime"): "history --until=DATE",
    ("sstat", "-j --jobs"): "show JOB",
    ("sprio", "-j --jobs"): "why JOB",
}
"""Our command by theirs and the names of a flag; its last word is the place of the value."""
_FLAG = {
    (command, name): ours for (command, names), ours in _FLAGS.items() for name in names.split()
}
_SHOWN = {
    **dict.fromkeys(("node", "nodes"), "machines"),
    **dict.fromkeys(("partition", "partitions", "part"), "pool"),
    **dict.fromkeys(("config", "daemons"), "status"),
    **dict.fromkeys(("reservation", "reservations", "res", "assoc", "assoc_mgr"), "quota show"),
}
"""What `scontrol show` shows besides jobs."""
_OF_NODES = {
    **dict.fromkeys(("drain", "fail"), "drain"),
    "down": "cordon",
    **dict.fromkeys(("resume", "undrain", "idle"), "uncordon"),
}
"""The node states of `scontrol update NodeName=... State=...`, and our verb for each."""
_OF_ADMINS = ("create", "delete", "reconfigure", "reboot", "reboot_nodes", "shutdown", "takeover")
"""Actions of `scontrol` that Bastion does not need."""
_TASK = pattern(r"(.+)_(?:(\d+)|\[([\d,-]+)\])")
"""A task of an array, as Slurm writes it; `[0-3]` names several."""


def slurm_command(word: str, rest: Sequence[str]) -> str:
    """Return our command, without `bastion`, for one of Slurm's; empty if there is none."""
    if word == "scontrol":
        return _scontrol(rest)
    if word == "srun" and (beside := [each for each in rest if each.startswith("--jobid=")]):
        own = [each for each in rest if each not in (*beside, "--pty", "--overlap")]
        job = beside[0].partition("=")[2]
        return f"exec {job} -- {shlex.join(own) or 'bash'}"
    if word == "srun" and "--pty" in rest:
        return _interactive([each for each in rest if each != "--pty"])
    if word == "salloc":
        return _interactive(rest or ["-N1"])
    if word == "scancel" and (sent := [each for each in rest if each.startswith("--signal=")]):
        jobs = [each for each in rest if not each.startswith("-")] or ["JOB"]
        signal = sent[0].partition("=")[2]
        return f"exec {_own_id(jobs[0])} -- kill -s {signal} PID"
    if word == "scancel" and rest and not any(each.startswith("-") for each in rest):
        return f"cancel {shlex.join(map(_own_id, rest))}"
    if word == "squeue" and "--start" in rest:
        shown = slurm_command(word, [each for each in rest if each != "--start"])
        return shown.replace("show ", "why ", 1) if shown.startswith("show ") else "why JOB"
    return _together(
        _filled(ours, value or (following if following[:1] != "-" else ""))
        for each, following in zip(rest, [*rest[1:], ""])
        for name, _, value in [each.partition("=")]
        if (ours := _FLAG.get((word, name)))
    )


def _together(commands: Iterable[str]) -> str:
    """Return the first command, with the flags of the others that have the same verb."""
    first, *others = [*commands] or [""]
    verb = first.partition(" ")[0]
    more = [rest for each in others for its, _, rest in [each.partition(" ")] if its == verb]
    if "--" not in first:  # it names jobs
        return first
    return " ".join(dict.fromkeys([first, *more]))


def _filled(ours: str, value: str) -> str:
    """Return the command with the value of a flag in its place."""
    for place in ("JOB", "USER", "STATE", "DATE", "PROJECT"):
        if value and ours.endswith(place):
            words = _ids(value) if place == "JOB" else [value]
            if place == "STATE":
                words = [",".join(map(own_state, value.split(",")))]
            return ours.removesuffix(place) + shlex.join(words)
    return ours


def _ids(value: str) -> list[str]:
    """Return the jobs of a list, split at commas outside brackets."""
    return [_own_id(each) for each in re.split(r",(?![^\[]*\])", value)]


def _own_id(job: str) -> str:
    """`33_4` is `33.4` here, and `33_[0-3]` is `33.0-3`."""
    task = _TASK.fullmatch(job)
    return f"{task[1]}.{task[2] or task[3]}" if task else job


def _interactive(rest: Sequence[str]) -> str:
    """Return the commands for a shell with devices: a job that sleeps, and an exec in it."""
    flags, own = slurm_flags(rest)
    if not flags:
        return f"exec JOB -- {shlex.join(own) or 'bash'}"
    has_limit = any(each.startswith(("-t", "--time")) for each in flags)
    limit = "" if has_limit else " --max_runtime=8h"
    job = flags[flags.index("-J") + 1] if "-J" in flags else ""
    job = job or next((each[11:] for each in flags if each.startswith("--job_name=")), "")
    name = "" if job else "--name=shell "
    launch = f"launch {name}{shlex.join(flags)}{limit} -- sleep infinity"
    return f"{launch} && bastion exec {job or 'shell'} -- {shlex.join(own) or 'bash'}"


def _scontrol(rest: Sequence[str]) -> str:
    if rest[:1] == ["ping"]:
        return "status"
    if rest[:1] == ["write"]:  # batch_script
        return f"show {shlex.join(map(_own_id, rest[2:3])) or 'JOB'}"
    if rest[1:] and rest[0] == "create" and rest[1].lower().startswith("res"):
        return "help write-a-quota-file"
    if rest and rest[0] in _OF_ADMINS:
        return "help come-from-another-system"
    if rest[:1] == ["top"]:
        return f"update {shlex.join(map(_own_id, rest[1:])) or 'JOB'} --priority=1"
    if len(rest) > 1 and rest[0] == "show":
        return _SHOWN.get(rest[1].lower(), "")
    if rest[:1] == ["update"]:
        told = {
            name.lower(): value for name, _, value in (word.partition("=") for word in rest[1:])
        }
        if node := told.get("nodename"):
            verb = _OF_NODES.get(told.get("state", "").lower())
            return f"{verb} {node}" if verb else "machines"
        job = told.get("jobid") or told.get("job") or "JOB"
        if limit := told.get("timelimit"):
            return f"update {job} --max_runtime={limit}"
        return f"update {job} --priority=N"
    return ""
