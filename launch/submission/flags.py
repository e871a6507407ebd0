"""Build a launch from the flags of a submission."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from typing import Any

from bastion.errors import SpecError
from bastion.spec.arrays.array import Array
from bastion.spec.arrays.sweep import Setting, Sweep, text_of
from bastion.spec.launch import Job, Launch, Process
from bastion.spec.notify import USUAL, Notify
from bastion.spec.python_env import PythonEnv
from bastion.spec.resources import Resources, type_name
from bastion.spec.secret import Secret, secret_of
from bastion.spec.where import Where
from bastion.value import replace
from launch.errors import UsageError
from launch.screen.notes import note
from launch.submission.code import code_of
from launch.submission.foreign_flags import limit_of, refuse_gpus_of_all_nodes
from quota.pattern import pattern

_SHORT_SIZE = pattern(r"(\d+(?:\.\d+)?)([kmgtKMGT])[iI]?")
"""`64G` and `64Gi` are 64 GiB, as in Slurm and Kubernetes."""
_RANGE = pattern(r"(\d+)(?:\.\.|-|:)(\d+)")
"""`0-9` is a range in `--array`, but one value in `--sweep`."""
_RUNNERS = pattern(r"(?:.*/)?(?:python[\d.]*|bash|sh|env|uv|torchrun|-m|run|-u)")
"""Words at the start of a command that do not describe the job."""


def launch_of(args: argparse.Namespace) -> Launch:
    """
    Return the launch of one job that flags and a command describe.

    Raises:
        UsageError: A flag is malformed.
        SpecError: Their values are invalid: every problem.
    """
    refuse_gpus_of_all_nodes(args)
    command = list(args.command)
    name = args.name or name_from(command)
    process = Process(
        " ".join(command) if args.shell else command,
        shell=args.shell,
        resources=Resources(**resources_of([*args.resources.split(","), *args.asked])),
    )
    job = Job(
        name=name,
        replicas=args.replicas,
        processes=(process,),
        instance_type=args.instance_type,
        max_runtime=limit_of("--max_runtime", args.max_runtime),
        grace=args.grace or None,
        priority=args.priority,
        borrow=not args.no_borrow,
        retries=args.retries,
        on_failure=args.on_failure,
        success=args.success,
        **({"retry_backoff": args.retry_backoff} if args.retry_backoff else {}),
        resume=not args.no_resume,
        hold=args.hold,
        **_end_fields(args),
        env=pairs("--env", args.env),
        secrets=_secrets(args.secret),
        aliases=tuple(args.alias),
    )
    where = Where(
        pool=args.pool,
        cluster=args.cluster,
        shard=args.shard,
        hostnames=tuple(args.hostname),
        exclusive=args.exclusive,
        same=args.same,
    )
    launch = Launch(
        name=name,
        jobs=(job,),
        where=where,
        when_busy=args.when_busy,
        after=tuple(args.after),
        notify=_notify(args),
        python=_python(args),
        array=_array(args),
        sweep=_sweep(args),
        max_failures=args.max_failures,
    )
    # The description of code becomes a stored reference when the client sends it.
    return replace(launch, code=code_of(args))


def beside(launch: Launch, args: argparse.Namespace) -> Launch:
    """
    Return `launch`, from a file of another system, with the flags given next to it.

    These are flags that such a file cannot have, and flags for which `sbatch` prefers the command
    line over the script.

    Raises:
        UsageError: A flag is malformed.
        SpecError: Their values are invalid: every problem.
    """
    (job,) = launch.jobs
    fields = _end_fields(args)
    fields |= {"retries": args.retries, "secrets": _secrets(args.secret)}
    fields |= _fields_over(job, args)
    job = replace(job, borrow=not args.no_borrow, **fields)
    return replace(
        launch,
        name=args.name or launch.name,
        jobs=(job,),
        where=_where_over(launch.where, args),
        after=tuple(args.after) or launch.after,
        array=_array(args) or launch.array,
        when_busy=args.when_busy,
        notify=_notify(args),
        python=_python(args),
        max_failures=args.max_failures,
    )


def _fields_over(job: Job, args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a job that the command line sets instead of its script."""
    env = {**job.env, **pairs("--env", args.env)}
    fields: dict[str, Any] = {}
    is_slurms = "SLURM_JOB_NAME" in env
    if args.name:
        fields["name"] = args.name
        env |= {"SLURM_JOB_NAME": args.name} if is_slurms else {}
    if args.max_runtime:
        fields["max_runtime"] = limit_of("--max_runtime", args.max_runtime)
    if args.priority != args.shaping["priority"]:
        fields["priority"] = args.priority
    if args.pool and is_slurms:
        env["SLURM_JOB_PARTITION"] = args.pool
    if args.array and is_slurms:
        from bastion.compat.sbatch_script import array_variables

        env |= array_variables(Array(args.array))
    return {**fields, "hold": args.hold or job.hold, "env": env}


def _where_over(where: Where, args: argparse.Namespace) -> Where:
    """Return where a job may run: the command line takes precedence over its script."""
    given = {
        "pool": args.pool,
        "cluster": args.cluster,
        "shard": args.shard,
        "hostnames": tuple(args.hostname),
        "exclusive": args.exclusive,
        "same": args.same,
    }
    return replace(where, **{name: each for name, each in given.items() if each})


def _notify(args: argparse.Namespace) -> tuple[Notify, ...]:
    if args.notify_on and not args.notify:
        raise UsageError("--notify_on needs --notify", hint="add --notify=WEBHOOK")
    on = tuple(args.notify_on) or USUAL
    return tuple(Notify(to, on=on) for to in args.notify)


def _end_fields(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a job about its end; a flag that is not given sets no field."""
    given = {
        "idle_timeout": args.idle_timeout,
        "hold_on_failure": args.hold_on_failure,
        "on_end_timeout": args.on_end_timeout,
        "signs_of_life": tuple(filter(None, args.signs_of_life.split(","))),
        "on_end": ("/bin/sh", "-c", args.on_end) if args.on_end else (),
    }
    _check_signs(given["signs_of_life"])
    if not args.idle_timeout and (args.signs_of_life or args.on_idle != "fail"):
        flag = "--signs_of_life" if args.signs_of_life else "--on_idle"
        raise UsageError(f"{flag} needs --idle_timeout")
    if args.on_end_timeout and not args.on_end:
        raise UsageError("--on_end_timeout needs --on_end")
    return {"on_idle": args.on_idle} | {name: each for name, each in given.items() if each}


def _check_signs(signs: tuple[str, ...]) -> None:
    """Refuse an unknown sign before a missing flag is reported."""
    if signs:
        from bastion.spec.launch import SIGNS
        from quota.choice import choose

        for sign in signs:
            if sign not in SIGNS:
                raise UsageError(f"--signs_of_life: {sign!r} is unknown, {choose(sign, SIGNS)}")


def name_from(command: list[str]) -> str:
    """Derive a name for a job from its command: `python3 train.py --lr=1` is `train`."""
    if "-c" in command[1:3] and _last_part(command[0]).startswith("python"):
        return "python"  # the rest is code, not a name
    told = [word for word in command if _tells(word)]
    word, *others = told[0].split() if told and told[0].split() else ["job"]
    if "-c" in command[1:3]:  # the words of a shell line
        word = next(filter(_tells, (word, *others)), word)
    return _cleaned(os.path.splitext(_last_part(word))[0])


def _tells(word: str) -> bool:
    """Whether a word of a command says what runs."""
    return not _RUNNERS.fullmatch(word) and not word.startswith("-")


def _last_part(path: str) -> str:
    return os.path.basename(os.path.normpath(path))


def _cleaned(word: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", word).strip("-._")
    return cleaned[:40].strip("-._") or "job"


def _array(args: argparse.Namespace) -> Array | None:
    if args.array:
        return Array(args.array, at_once=args.at_once)
    if args.at_once is not None and not args.sweep:
        raise UsageError("--at_once needs --array or --sweep")
    return None


def _sweep(args: argparse.Namespace) -> Sweep | None:
    """Return the sweep in `--sweep`: the grid of every combination."""
    grid = {}
    for name, written in pairs("--sweep", args.sweep, form="NAME=V,V, such as lr=0.1,0.01").items():
        grid[name] = [_setting(part) for part in _parts(written)] if written else []
        if found := _RANGE.fullmatch(written):
            first, last = found.groups()
            note(
                f"note: {name} has one value, {written}; for the numbers from {first} to {last}:"
                f" --sweep={name}=$(seq -s, {first} {last})"
            )
    if len(grid) < len(args.sweep):
        raise UsageError("--sweep: a parameter is given twice; give each once, such as lr=0.1,0.01")
    return Sweep(grid=grid, at_once=None if args.array else args.at_once) if grid else None


def _parts(written: str) -> list[str]:
    """Split at commas outside brackets, so Hydra's `[1,2]` and `{a:1,b:2}` stay whole."""
    parts, depth = [""], 0
    for char in written:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return written.split(",") if depth else parts


def _setting(text: str) -> Setting:
    """
    Parse true, false, and numbers that print as they were typed; anything else is text.

    `3.10` as a number would run 3.1, and `007` would run 7.
    """
    for kind in (int, float):
        try:
            number: int | float = kind(text)
            if text_of(number) == text:
                return number
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def resources_of(parts: Iterable[str]) -> dict[str, int | str]:
    """
    Return the resources by type: `h100=2`, or `H100:2` as in SkyPilot.

    Raises:
        UsageError: A part is malformed, or a type is given twice.
    """
    written: dict[str, int | str] = {}
    for part in filter(None, map(str.strip, parts)):
        name, equals, number = part.replace(":", "=", 1).partition("=")
        name = type_name(name)
        if not (name and equals and number):
            raise UsageError(f"--resources: {part!r} is not TYPE=N, as in h100=2,cpu=4")
        if name in written:
            raise UsageError(f"--resources: {name} is given twice, {written[name]} and {number}")
        short = _SHORT_SIZE.fullmatch(number) if name == "memory" else None
        size = f"{short[1]}{short[2].upper()}iB" if short else number
        written[name] = int(number) if number.isdecimal() else size
    return written


def pairs(flag: str, texts: list[str], *, form: str = "NAME=TEXT") -> dict[str, str]:
    """
    Return the values of a repeated flag, by name.

    Raises:
        UsageError: One of `texts` is not of `form`.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"{flag}: {text!r} is not {form}")
        found[name] = value
    return found


def _python(args: argparse.Namespace) -> PythonEnv | None:
    if args.python_env:
        return PythonEnv(lock=args.python_env, python=args.python_version)
    if args.python_version:
        raise UsageError("--python_version needs --python_env=FILE")
    return None


def _secrets(texts: list[str]) -> tuple[Secret, ...]:
    try:
        return tuple(map(secret_of, texts))
    except SpecError as error:
        raise SpecError(*(f"--secret: {each}" for each in error.problems)) from None
