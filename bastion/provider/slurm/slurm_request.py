"""
The request to Slurm: a machine of a pool as a batch job. Pure.

Source: Slurm's manual, sbatch(1).
"""

from __future__ import annotations

import re
import shlex

from bastion.machine import Machine, Pool
from bastion.provider.boot.script import OPTIONS as BOOT_OPTIONS
from bastion.spec.where import CONTAINERS

OPTIONS = ("account", "qos", "time", "notice", "gres", "sbatch", *BOOT_OPTIONS)
"""Allowed keys of a pool's `options`."""
NOTICE_S = 120
"""How long before the end of its time limit a machine is notified."""
NONE = "none"

_OURS = frozenset(
    (
        *("account", "qos", "time", "gres", "partition", "reservation", "job-name", "nodes"),
        *("ntasks", "array", "exclusive", "mem", "dependency", "no-requeue", "requeue", "output"),
        *("error", "signal", "export", "export-file", "wrap", "chdir", "parsable", "wait", "hold"),
        *("test-only", "open-mode", "input", "clusters", "begin", "uid"),
    )
)
"""Flags that the provider sets itself, or that would change the nature of the job."""
_TIME = re.compile(r"\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d(:\d\d)?)?", re.ASCII)
_NOT_DEVICES = ("cpu", "memory")
_NOT_OF_NODES = ("image", "disk_gib", "network", "tags", "identity", "run_as")


def problems(pool: Pool) -> tuple[str, ...]:
    """Return what is wrong with a pool of Slurm's nodes; each problem begins with its field."""
    options = pool.options
    wrong = [
        f"{field.removesuffix('_gib')}: a node of Slurm has none; leave it out"
        for field in _NOT_OF_NODES
        if getattr(pool, field)
    ]
    if pool.terms != "on_demand":
        wrong.append("terms: a node of Slurm has none; leave it out")
    if CONTAINERS in pool.labels:
        wrong.append("containers: a node of Slurm runs no images; leave it out")
    wrong += [
        f"options.{name}: unknown; a pool of provider slurm takes {', '.join(OPTIONS)}"
        for name in options
        if name not in OPTIONS
    ]
    if (time := options.get("time", "")) and not _TIME.fullmatch(time):
        wrong.append(f"options.time: {time!r} is not a time of Slurm's, such as 2-00:00:00")
    notice = options.get("notice", "")
    if notice and not (notice.isascii() and notice.isdigit() and 0 < int(notice) <= 3600):
        wrong.append(f"options.notice: {notice!r} must be seconds from 1 to 3600")
    return (*wrong, *_flag_problems(options.get("sbatch", "")))


def _flag_problems(said: str) -> list[str]:
    try:
        words = shlex.split(said)
    except ValueError as error:
        return [f"options.sbatch: {said!r} cannot be read: {error}"]
    wrong = []
    for word in words:
        flag = word.partition("=")[0].removeprefix("--")
        if not re.fullmatch(r"--[a-z][a-z-]+(=.*)?", word):
            wrong.append(f"options.sbatch: {word!r} must be one word, such as --constraint=h100")
        elif any(ours.startswith(flag) for ours in _OURS):  # Slurm accepts any prefix of a flag
            wrong.append(f"options.sbatch: --{flag} is set by Bastion; leave it out")
    return wrong


def job_name(bucket: str, machine: str) -> str:
    """Return Slurm's name for a machine."""
    return f"{prefix(bucket)}{machine}"


def prefix(bucket: str) -> str:
    """Return the prefix of the names of all machines of a bucket."""
    return f"bastion-{bucket}-"


def submission(pool: Pool, machine: Machine, *, bucket: str) -> tuple[str, ...]:
    """
    Return the command that submits `machine`; its input is `batch_script`.

    It takes a whole node with all its devices: then nothing else runs there, and device numbers
    begin at 0. Slurm runs jobs with the same name one at a time, so a submission whose outcome was
    unknown creates no second machine.
    """
    options = pool.options
    flags = [
        "--parsable",
        f"--job-name={job_name(bucket, machine.name)}",
        "--dependency=singleton",
        "--no-requeue",
        "--nodes=1",
        "--ntasks=1",
        "--exclusive",
        "--mem=0",
        "--output=/dev/null",
        "--export=ALL",
        f"--signal=B:USR1@{notice_s(pool)}",
    ]
    given = {
        "partition": machine.zone,
        "reservation": pool.reservation,
        "gres": _gres(pool),
        **{name: options.get(name, "") for name in ("account", "qos", "time")},
    }
    flags += [f"--{name}={text}" for name, text in given.items() if text]
    return ("sbatch", *flags, *shlex.split(options.get("sbatch", "")))


def notice_s(pool: Pool) -> int:
    """Return how long before the end of its time limit a machine of `pool` is notified."""
    return int(pool.options.get("notice", NOTICE_S))


def _gres(pool: Pool) -> str:
    said = pool.options.get("gres", "")
    devices = sum(units for name, units in pool.resources.items() if name not in _NOT_DEVICES)
    if said:
        return "" if said == NONE else said
    return f"gpu:{devices}" if devices else ""


def batch_script(pool: Pool, machine: str, start: str, *, bucket: str) -> str:
    """
    Return the script of a machine's batch job.

    It runs `start`, the start-up script of the machine, and ends with it. Slurm then ends
    everything that is left on the node. The folder of the machine is on the node, and is removed
    with the job.

    Args:
        pool: Its options have passed `problems`.
        machine: The machine's name.
        start: A shell script, which runs as long as the agent does.
        bucket: The bucket's own name.
    """
    values = {
        "FOLDER": _folder(pool),
        "MACHINE": shlex.quote(f"{bucket}/{machine}"),
        "NOTICE": str(notice_s(pool)),
        "START": start,
    }
    # In a single pass: an inserted text may itself look like a placeholder.
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], _SCRIPT)


def _folder(pool: Pool) -> str:
    named = pool.options.get("folder", "")
    return shlex.quote(named) if named else '"${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/bastion-$(id -u)"'


_SCRIPT = r"""#!/bin/sh
# A node of Slurm as a machine of Bastion.
umask 077
base=@FOLDER@
mkdir -p "$base"
# A user who made the folder below /tmp first could read what is written there.
if [ ! -O "$base" ] || [ -h "$base" ]; then
  echo "bastion: $base belongs to another user" >&2
  exit 1
fi
BASTION_BOOT_DIR="$base"/@MACHINE@
export BASTION_BOOT_DIR
mkdir -p "$BASTION_BOOT_DIR" && cd "$BASTION_BOOT_DIR" || exit 1
# Many nodes delete what nothing has used for ten days, except below a folder that is locked.
# Source: systemd.io/TEMPORARY_DIRECTORIES. Without its lock file, an agent would kill its jobs.
if command -v flock >/dev/null; then
  exec 8<. && flock -s 8
fi
cat >start <<'END_OF_START'
@START@
END_OF_START
is_over=
trap : TERM
trap 'echo "$(($(date +%s) + @NOTICE@))" >notice.new && mv notice.new notice' USR1
trap is_over=yes USR2
sh start </dev/null >>boot.log 2>&1 8<&- &
while [ -z "$is_over" ] && kill -0 "$!" 2>/dev/null; do
  wait "$!"
done
cd / && rm -rf --one-file-system "$BASTION_BOOT_DIR"
"""
