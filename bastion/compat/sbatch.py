"""
Read Slurm batch scripts as launches.

A node of the job is a replica, on which the script runs once (see `sbatch_script`). Devices, memory
and cpus are requested per node. Every option of `#SBATCH` is mapped here, or refused with its line
and a hint. The few options for things that Bastion always does become notes.

Source: sbatch(1) of Slurm 24.05 for what each option means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TypeVar

from bastion.compat import sbatch_values as values
from bastion.compat.imported import Imported
from bastion.compat.sbatch_options import Header, Option, read_header
from bastion.compat.sbatch_script import array_variables, command, own_command, unset_variables
from bastion.errors import SpecError
from bastion.spec import After, Array, Job, Launch, Process, Resources, Where
from bastion.spec.code import Code
from quota.pattern import pattern

_T = TypeVar("_T")

_DEVICES = {"rtx3090": "rtx_3090", "rtx4090": "rtx_4090", "a100_40gb": "a100"}
"""Devices that have another name in the catalog."""
_SIGNAL_S = 60
"""Seconds from the signal to the end, if the script sets no other value."""

_REFUSED: Mapping[str, str] = {
    "begin": "a job cannot wait for a time of day; take it out, and submit it then",
    "clusters": "choose the bastion: --bastion=NAME",
    "contiguous": "machines have no order here; take it out",
    "deadline": "there are no deadlines; --time limits how long it runs",
    "exclude": "machines can be named, not excluded: --nodelist=A,B",
    "get-user-env": "jobs have a clean environment; name what they need: --export=NAME=TEXT",
    "input": "a job reads no input; redirect it in the script: program < file",
    "licenses": "there are no licences to count here; take it out",
    "overcommit": "CPUs are not shared between jobs; ask for what is needed",
    "oversubscribe": "devices are not shared between jobs; ask for what is needed",
    "priority": "say it when submitting a .toml: priority = 1 (highest) to 5; --nice lowers it",
    "qos": "there is none here, take it out; what a project may hold is in the quota file",
    "reservation": "there is none here, take it out; what a project may hold is in the quota file",
    "switches": "take it out, and submit with --same=LABEL of the pools that share a switch",
    "time-min": "a limit is one number: --time",
    "tmp": "scratch space is not counted; take it out",
    "wait": "bastion run FILE follows and waits",
}


def to_launch(
    script: str,
    *,
    name: str = "job",
    arguments: Sequence[str] = (),
    code: Code | None = None,
    device: Callable[[], str] = str,
    environment: Mapping[str, str] | None = None,
) -> Imported:
    """
    Return the launch that `sbatch` would make of `script`.

    Args:
        script: The text of the script.
        name: The name of its file. If the script sets no job name, the stem of the file name is
            used, and `SLURM_JOB_NAME` is the whole file name, as in Slurm.
        arguments: The arguments of the script.
        code: The code in the directory where it runs.
        device: Returns the resource type of a GPU requested without a type; empty if unknown.
        environment: The values of variables that `--export` names without a value.

    Raises:
        SpecError: A line is invalid or has no counterpart; the error lists every problem with its
            line.
    """
    return _Reading(read_header(script), device, environment or {}).launch(
        script, name, tuple(arguments), code
    )


_LINE = pattern(r"line (\d+): ")


def _line_of(problem: str) -> int:
    """Return the line that a problem names; 0 if it names none."""
    found = _LINE.match(problem)
    return int(found[1]) if found else 0


class _Reading:
    """Parser of one script; it collects problems and notes."""

    def __init__(
        self, header: Header, device: Callable[[], str], environment: Mapping[str, str]
    ) -> None:
        self._said = header.options
        self._device = device
        self._environment = environment
        self._problems: list[str] = []
        self._notes = list(header.notes)

    def launch(
        self, script: str, name: str, arguments: tuple[str, ...], code: Code | None
    ) -> Imported:
        self._refuse()
        nodes, tasks = self._shape()
        resources = self._resources(nodes, tasks)
        limit_s, grace_s = self._times()
        env = {"SLURM_NTASKS_PER_NODE": str(tasks), **self._environment_of(resources)}
        env["SLURM_CHDIR"] = self._text("chdir") or self._text("workdir")
        called = self._text("job-name") or name
        env["SLURM_JOB_NAME"] = called
        no_words: tuple[str, ...] = ()
        words = self._checked(
            None, lambda: command(script, name=name, arguments=arguments), no_words
        )
        title = self._text("job-name") or PurePath(name).stem
        title = re.sub(r"[^A-Za-z0-9._@+-]+", "-", title)[:63].strip("._@+-") or "job"
        priority, where, after = self._priority(), self._where(), self._after()
        tasks_of: Array | None = self._read("array", Array, None)
        if self._problems:
            raise SpecError(*sorted(self._problems, key=_line_of))
        if tasks_of is not None:
            env |= array_variables(tasks_of)
        env = {key: text for key, text in env.items() if text}
        self._note_what_differs(script, nodes, env)
        job = Job(
            name=title,
            replicas=nodes,
            processes=(Process(words, resources=Resources(**resources)),),
            max_runtime=limit_s,
            grace=grace_s,
            priority=priority,
            hold="hold" in self._said,
            resume=self._resumes(),
            env=env,
        )
        launch = Launch(
            name=title,
            project=self._text("account"),
            description=self._text("comment"),
            jobs=(job,),
            where=where,
            after=after,
            code=code,
            array=tasks_of,
        )
        return Imported(launch=launch, notes=tuple(sorted(self._notes, key=_line_of)))

    def _note_what_differs(self, script: str, nodes: int, env: Mapping[str, str]) -> None:
        """Note where `script` behaves differently than under Slurm."""
        if nodes > 1 and (found := own_command(script)):
            line, program = found
            self._notes.append(
                f"line {line}: {program} runs on each of the {nodes} nodes, not only on the"
                ' first; guard it with: test "$SLURM_NODEID" = 0 &&'
            )
        for line, name in unset_variables(script, env):
            self._notes.append(
                f"line {line}: ${name} is set by Slurm alone and empty here;"
                f" --env={name}=TEXT sets it"
            )

    # Small readers

    def _text(self, name: str) -> str:
        option = self._said.get(name)
        return "" if option is None else option.text

    def _checked(self, option: Option | None, read: Callable[[], _T], otherwise: _T) -> _T:
        """Return the result of `read`; if it raises, keep the problem and return `otherwise`."""
        try:
            return read()
        except SpecError as error:
            place = "" if option is None else f"{option}: "
            self._problems += [f"{place}{problem}" for problem in error.problems]
            return otherwise

    def _read(self, name: str, read: Callable[[str], _T], otherwise: _T) -> _T:
        option = self._said.get(name)
        if option is None:
            return otherwise
        return self._checked(option, lambda: read(option.text), otherwise)

    def _count(self, *names: str) -> int | None:
        """Return the whole number of the one of `names` that is set."""
        counts = [self._read(name, values.whole, None) for name in names]
        return next((count for count in counts if count is not None), None)

    def _problem(self, name: str, text: str) -> None:
        self._problems.append(f"{self._said[name]}: {text}")

    # Options

    def _refuse(self) -> None:
        for name, what_to_do in _REFUSED.items():
            if name in self._said:
                self._problem(name, what_to_do)
        for name in ("mail-type", "mail-user"):
            if name in self._said:
                self._notes.append(
                    f"{self._said[name]}: no mail is sent; use a webhook:"
                    " --notify=WEBHOOK --notify_on=ended"
                )
                break
        for name in ("output", "error"):
            if name in self._said:
                self._notes.append(
                    f"{self._said[name]}: everything printed is kept in the bucket:"
                    " bastion logs JOB, with --download as files"
                )

    def _shape(self) -> tuple[int, int]:
        """Return the number of nodes, and of tasks on each node."""
        nodes = self._read("nodes", values.nodes, None)
        tasks = self._count("ntasks")
        each = self._count("ntasks-per-node", "tasks-per-node")
        if tasks is None:
            return nodes or 1, each or 1
        if nodes is None:
            nodes = -(-tasks // each) if each else 1
        if tasks % nodes or (each or tasks // nodes) * nodes != tasks:
            of = f" of {each} tasks" if each else ""
            self._problem("ntasks", f"is not the same number on each of {nodes} nodes{of}")
        return nodes, tasks // nodes

    def _resources(self, nodes: int, tasks: int) -> dict[str, int | str]:
        """Return the resources of one node."""
        devices = self._devices(nodes, tasks)
        number = sum(devices.values())
        each = self._count("cpus-per-task")
        for_device = self._count("cpus-per-gpu")
        cpus = tasks * each if each else tasks if tasks > 1 else 0
        if for_device is not None:
            if not number:
                self._problem("cpus-per-gpu", "no GPU is asked for")
            cpus = max(cpus, for_device * number)
        memory = self._read("mem", values.memory, 0)
        memory += self._read("mem-per-cpu", values.memory, 0) * max(cpus, 1)
        memory += self._read("mem-per-gpu", values.memory, 0) * number
        if "mem-per-gpu" in self._said and not number:
            self._problem("mem-per-gpu", "no GPU is asked for")
        if sum(name in self._said for name in ("mem", "mem-per-cpu", "mem-per-gpu")) > 1:
            self._problems.append("--mem, --mem-per-cpu and --mem-per-gpu exclude each other")
        asked = {**devices, "cpu": cpus, "memory": memory}
        return {name: units for name, units in asked.items() if units}

    def _devices(self, nodes: int, tasks: int) -> dict[str, int]:
        """Return the devices of one node, by resource type."""
        ways = [
            name for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task") if self._text(name)
        ]
        if len(ways) > 1:
            self._problem(ways[-1], f"says again what --{ways[0]} says; keep one of them")
        if not ways:
            return {}
        (way, *_) = ways
        found: dict[str, int] = self._read(way, self._device_list(gres=way == "gres"), {})
        if way == "gpus-per-task":
            return {kind: count * tasks for kind, count in found.items()}
        if way == "gpus":
            if any(count % nodes for count in found.values()):
                self._problem(way, f"is not the same number on each of {nodes} nodes")
            return {kind: count // nodes for kind, count in found.items()}
        return found

    def _device_list(self, *, gres: bool) -> Callable[[str], dict[str, int]]:
        def read(text: str) -> dict[str, int]:
            devices: dict[str, int] = {}
            for part in text.split(","):
                words = part.split(":")
                if gres and words.pop(0) != "gpu":
                    raise SpecError(f"{part!r} is not a GPU; other resources are not counted here")
                count = values.whole(words.pop()) if words and words[-1].isdecimal() else 1
                if len(words) > 1:
                    raise SpecError(f"{part!r} is not TYPE:NUMBER")
                kind = words[0].lower().replace("-", "_") if words else self._device()
                if not kind:
                    raise SpecError(
                        "names no type of device, and here is more than one; write"
                        f" {'gpu:' if gres else ''}h100:{count}"
                    )
                kind = _DEVICES.get(kind, kind)
                devices[kind] = devices.get(kind, 0) + count
            return devices

        return read

    def _times(self) -> tuple[float | None, float | None]:
        """Return the time limit minus the signal's lead time, and that lead time."""
        limit_s = self._read("time", values.seconds, None)
        option = self._said.get("signal")
        if option is None:
            return limit_s, None
        match = re.fullmatch(r"(?:([RB]):)?(?:SIG)?([A-Z]+\d*|\d+)(?:@(\d{1,5}))?", option.text)
        if match is None:
            self._problem("signal", "is not [B:]SIGNAL[@SECONDS]")
            return limit_s, None
        if match[2] not in ("TERM", "15"):
            self._problem(
                "signal",
                "a job here is notified by TERM and a file, BASTION_NOTICE_FILE: trap TERM in the"
                " script, and write TERM here",
            )
        if match[1] == "R":
            self._problem("signal", "there are no reservations here; take R: out")
        if match[1] == "B":
            self._notes.append(f"{option}: every process of the job gets it, not only the script")
        early_s = float(match[3] or _SIGNAL_S)
        if limit_s is not None and limit_s <= early_s:
            self._problem("signal", "comes before the job begins; --time is shorter")
            return limit_s, early_s
        return None if limit_s is None else limit_s - early_s, early_s

    def _priority(self) -> int:
        option = self._said.get("nice")
        if option is None:
            return 3
        by = self._read("nice", values.adjustment, 0)
        if by < 0:
            self._problem("nice", "only admins of a project raise priorities: bastion prioritize")
        return 3 if by == 0 else 4 if by <= 100 else 5

    def _where(self) -> Where:
        partition = self._read("partition", values.one("a job goes to one pool"), "")
        anywhere: tuple[str, ...] = ()
        unlabelled: dict[str, str] = {}
        hosts = self._read("nodelist", values.hosts, anywhere)
        labels = self._read("constraint", values.labels, unlabelled)
        if self._text("exclusive"):
            self._problem("exclusive", "a machine is shared with all or with none: --exclusive")
        return Where(
            pool=partition, hostnames=hosts, labels=labels, exclusive="exclusive" in self._said
        )

    def _resumes(self) -> bool:
        """Whether the job may be requeued; the later of the two options wins."""
        said = [self._said[name] for name in ("requeue", "no-requeue") if name in self._said]
        return not said or max(said, key=lambda option: option.line).name == "requeue"

    def _after(self) -> tuple[After, ...]:
        none: tuple[After, ...] = ()
        return self._read("dependency", values.afters, none)

    def _environment_of(self, resources: Mapping[str, int | str]) -> dict[str, str]:
        nothing: dict[str, str] = {}
        exported = self._read("export", self._exported, nothing)
        devices = sum(int(n) for kind, n in resources.items() if kind not in ("cpu", "memory"))
        return {
            "SLURM_JOB_PARTITION": self._text("partition"),
            "SLURM_CPUS_PER_TASK": self._text("cpus-per-task"),
            "SLURM_CPUS_ON_NODE": str(resources.get("cpu", "")),
            "SLURM_GPUS_ON_NODE": str(devices) if devices else "",
            **exported,
        }

    def _exported(self, text: str) -> dict[str, str]:
        if text in ("NONE", "NIL"):
            return {}
        env = {}
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if name == "ALL" and not equals:
                raise SpecError(
                    "your whole environment is not sent, it may hold secrets; name what the job"
                    " needs: --export=NAME,OTHER=TEXT"
                )
            if not equals and name not in self._environment:
                raise SpecError(f"there is no variable {name!r} here; write --export={name}=TEXT")
            env[name] = value if equals else self._environment[name]
        return env
