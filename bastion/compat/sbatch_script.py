"""
The shell that runs a Slurm script: `SLURM_*` variables, and a partial `srun`.

A job of Bastion has no allocation to which one place sends steps. Each node of a Slurm job is a
replica: the script runs once on each, and `srun` starts the tasks of that node.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath

from bastion.errors import SpecError
from bastion.spec import Array

_VARIABLES = """\
export SLURM_JOB_ID="$BASTION_JOB_ID" SLURM_JOBID="$BASTION_JOB_ID"
export SLURM_NNODES="$BASTION_REPLICA_COUNT" SLURM_JOB_NUM_NODES="$BASTION_REPLICA_COUNT"
export SLURM_NODEID="$BASTION_REPLICA_INDEX" SLURM_LOCALID=0
export SLURM_NTASKS=$((BASTION_REPLICA_COUNT * SLURM_NTASKS_PER_NODE))
export SLURM_NPROCS="$SLURM_NTASKS"
export SLURM_PROCID=$((BASTION_REPLICA_INDEX * SLURM_NTASKS_PER_NODE))
export SLURM_NODELIST="$BASTION_HOSTS" SLURM_JOB_NODELIST="$BASTION_HOSTS"
export SLURM_SUBMIT_DIR="$PWD" SLURM_RESTART_COUNT=$((BASTION_ATTEMPT - 1))
if [ -n "$BASTION_TASK_INDEX" ]; then
    export SLURM_ARRAY_TASK_ID="$BASTION_TASK_INDEX" SLURM_ARRAY_JOB_ID="$BASTION_ARRAY_ID"
    export SLURM_ARRAY_TASK_COUNT="$BASTION_TASK_COUNT"
fi
"""
"""Variables that only the machine knows. Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES."""

_STEPS = """\
srun() {
    while :; do
        case "$1" in
            -l|-u|-K|--label|--unbuffered|--kill-on-bad-exit|--kill-on-bad-exit=*) shift ;;
            --) shift; break ;;
            -*) echo "srun: $1: a step of another shape than its job cannot be started here" >&2
                return 64 ;;
            *) break ;;
        esac
    done
    if [ "$SLURM_NTASKS_PER_NODE" -eq 1 ]; then "$@"; return; fi
    _first=$SLURM_PROCID _local=0 _tasks='' _code=0
    while [ "$_local" -lt "$SLURM_NTASKS_PER_NODE" ]; do
        (
            export SLURM_LOCALID=$_local SLURM_PROCID=$((_first + _local))
            export LOCAL_RANK=$_local RANK=$((_first + _local)) WORLD_SIZE=$SLURM_NTASKS
            export LOCAL_WORLD_SIZE=$SLURM_NTASKS_PER_NODE
            exec "$@"
        ) &
        _tasks="$_tasks $!" _local=$((_local + 1))
    done
    for _task in $_tasks; do
        wait "$_task" && _ended=0 || _ended=$?
        if [ "$_ended" -gt "$_code" ]; then _code=$_ended; fi
    done
    return "$_code"
}
scontrol() {
    if [ "$1 $2" = "show hostnames" ]; then
        echo "${3:-$SLURM_JOB_NODELIST}" | tr , '\\n'
    else
        echo "scontrol $*: only 'show hostnames' can be had here" >&2
        return 64
    fi
}
"""
_BASH_CHILDREN = "export -f srun scontrol\n"
_BEGIN = 'if [ -n "$SLURM_CHDIR" ]; then cd -- "$SLURM_CHDIR" || exit; fi\n'
_RUN = '_begin=$1 _script=$2; shift 2; eval "$_begin"; eval "$_script"'
"""On the first line, so the shell counts the lines of the script from 1, as its author does."""
_ASSIGNED = re.compile(r"\w+=")
_NAME = re.compile(r"[\w./+-]+")
"""The name of a program, as far as it can be read without a shell."""
_HARMLESS = frozenset(
    (
        *("srun", "scontrol", "echo", "printf", "date", "hostname", "pwd", "nvidia-smi", "env"),
        *("module", "ml", "source", ".", "conda", "mamba", "micromamba", "cd", "mkdir", "ulimit"),
        *("export", "unset", "set", "shopt", "declare", "readonly", "local", "umask", "trap"),
        *("exit", "wait", "sleep", "true", "test", "if", "then", "else", "elif", "fi", "for", "do"),
        *("done", "while", "case", "esac", "function", "EOF"),
    )
)
_SHELLS = {"bash", "sh", "dash", "ksh", "zsh"}
_READ = re.compile(r"\$(?:\{(SLURMD?_[A-Z0-9_]+)(?![A-Z0-9_]|:?[-=+?])|(SLURMD?_[A-Z0-9_]+))")
"""A Slurm variable that a shell reads, except with a default for its absence."""
_SET = re.compile(r"\b(SLURMD?_[A-Z0-9_]+)=")
_WHERE_SAID = re.compile(r"SLURM_(ARRAY_\w+|CPUS_PER_TASK|GPUS_ON_NODE)")
"""Variables that Slurm, too, sets only if their options are given."""


def command(script: str, *, name: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """
    Return the command that runs `script` with `arguments`, by its first line's interpreter.

    Raises:
        SpecError: It names no interpreter, or one that cannot run a script this way.
    """
    first, _, _ = script.partition("\n")
    try:
        words = shlex.split(first[2:]) if first.startswith("#!") else []
    except ValueError as error:
        raise SpecError(f"line 1: {error}".lower()) from None
    if not words:
        raise SpecError("line 1: a batch script begins with #! and the path of its interpreter")
    called = next((word for word in words if PurePath(word).name != "env"), "")
    program = re.sub(r"[\d.]+$", "", PurePath(called).name)
    if program in _SHELLS:
        children = _BASH_CHILDREN if program == "bash" else ""
        begin = f"{_VARIABLES}{_STEPS}{children}{_BEGIN}"
        return (*words, "-c", _RUN, name, begin, script, *arguments)
    if program == "python":
        begin = f'{_VARIABLES}{_BEGIN}exec "$@"'
        return ("/bin/sh", "-c", begin, name, *words, "-c", script, *arguments)
    raise SpecError(
        f"line 1: scripts of {program} cannot be run; allowed: {', '.join(sorted(_SHELLS))}, python"
    )


def array_variables(array: Array) -> dict[str, str]:
    """Return the variables with the lowest and highest index and the step of an array."""
    tasks = list(array.tasks)
    steps = {after - before for before, after in pairwise(tasks)}
    numbers = {"MIN": tasks[0], "MAX": tasks[-1], "STEP": steps.pop() if len(steps) == 1 else 1}
    return {f"SLURM_ARRAY_TASK_{name}": str(number) for name, number in numbers.items()}


def unset_variables(script: str, told: Collection[str]) -> Iterator[tuple[int, str]]:
    """
    Yield each Slurm variable that a shell's `script` reads and nothing sets, with its first line.

    `told` has the names of the variables that the job gets.
    """
    known = {*told, *_SET.findall(_VARIABLES), *_SET.findall(script)}
    for number, line in enumerate(script.split("\n"), start=1):
        for name in ("".join(found) for found in _READ.findall(line.partition(" #")[0])):
            if name not in known and not line.startswith("#") and not _WHERE_SAID.fullmatch(name):
                known.add(name)
                yield number, name


def own_command(script: str) -> tuple[int, str] | None:
    """
    Return line and name of the first program that `script` runs outside a step; None if none.

    Programs that only prepare the shell, or print, may run on each node as well as on one.
    """
    first, _, _ = script.partition("\n")
    if "python" in first:
        return 1, "the script"
    is_inside = False
    for number, line in enumerate(script.split("\n"), start=1):
        words = [] if is_inside else [w for w in line.split() if not _ASSIGNED.match(w)]
        is_inside = line.endswith("\\")
        name = words[0] if words else "#"
        if _NAME.fullmatch(name) and PurePath(name).name not in _HARMLESS:
            return number, name
    return None


def script_of(command: Sequence[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """Return the name, text and arguments of the script of `command`; None for any other."""
    words = list(command)
    if _RUN in words and len(words) > (at := words.index(_RUN)) + 3:
        return words[at + 1], words[at + 3], tuple(words[at + 4 :])
    if words[:2] == ["/bin/sh", "-c"] and len(words) > 4 and words[2].startswith(_VARIABLES):
        rest = words[words.index("-c", 3) + 1 :]
        return words[3], rest[0], tuple(rest[1:])
    return None
