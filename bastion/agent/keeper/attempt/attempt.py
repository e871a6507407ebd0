"""
One attempt on this machine: its processes, its notices, and the record of its end.

It forks processes and keeps their state. The loop decides which are signaled and when. Standard
library only, and plain classes for that reason.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import time

from bastion.agent.keeper.attempt.process import (
    SPARE_FILES,
    Process,
    boot_time,
    spawn,
    spawn_fault,
    why_not,
)
from bastion.agent.keeper.attempt.spool import Spool
from bastion.agent.keeper.attempt.undo import Undo
from bastion.agent.keeper.reasons import EXIT_CODE, IDLE, OUTCOME, TIME_LIMIT, outcome_after
from bastion.agent.machine import stray_processes as strays
from bastion.agent.machine.job_files import replace_file
from bastion.agent.machine.machine_fault import fault_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from bastion.agent.keeper.attempt.cgroup import Cgroup
    from bastion.agent.keeper.attempt.signs_of_life import Watch
    from bastion.agent.keeper.socket.request import ProcessSpec, Start

LAST_LINES_BYTES = 4096
"""End of the log of the first process to fail: a traceback, small enough for a register."""

_OF_SIGTERM = 128 + signal.SIGTERM
"""Exit code of a shell whose command was ended by SIGTERM. Source: POSIX, sh, "Exit Status"."""

_LAST_READS = 4
"""Reads of up to 1 MiB each; a pipe holds no more (/proc/sys/fs/pipe-max-size)."""


class Attempt:
    """The processes of one key."""

    __slots__ = (
        "cgroup",
        "cleaned_from",
        "end_by",
        "failed_by_itself",
        "first_failed",
        "idle",
        "is_over_memory",
        "kill_again_at",
        "kill_at",
        "kill_pause_s",
        "last_lines",
        "leaders",
        "life",
        "machine_fault",
        "notices",
        "on_end",
        "on_end_problem",
        "processes",
        "start",
        "started_at",
        "told",
        "undo",
        "watch",
    )

    def __init__(self, start: Start, *, life: int, now: float, mark: str) -> None:
        self.start = start
        self.life = life
        self.started_at = now
        self.undo = Undo(start.undo, mark)
        self.cgroup: Cgroup | None = None
        self.processes: list[Process] = []
        self.leaders: set[int] = set()
        """Pids of all its started processes, each the leader of a session; reaped ones too."""
        self.notices: list[dict[str, object]] = []
        self.told: list[strays.Seen] = []
        """Its processes, and their descendants, to which a SIGTERM was sent."""
        self.first_failed: int | None = None
        self.failed_by_itself = False
        self.machine_fault = ""
        """The resource that the machine lacked to start a process, or empty."""
        self.kill_at = float("inf")
        """When the grace period of its notice ends."""
        self.kill_again_at = 0.0
        self.kill_pause_s = 0.0
        self.is_over_memory = False
        """Whether its memory limit has killed a process, or should have."""
        self.end_by = float("inf")
        """End of the grace period of a stop, which bounds its clean-up too."""
        self.watch: Watch | None = None
        self.idle = ""
        """Which signs of life are missing, and for how long; empty while it is not idle."""
        self.on_end: Process | None = None
        """Its clean-up, once started."""
        self.on_end_problem = ""
        self.cleaned_from: int | None = None
        """Size of the first log when the clean-up started to write to it; None if none started."""
        self.last_lines: bytes | None = None
        """End of the log of the first process to fail; None while processes live."""

    @property
    def key(self) -> str:
        """The key of its request."""
        return self.start.key

    @property
    def limit_at(self) -> float:
        """When its time limit is over; infinite once its processes are dead."""
        return self._limit_at if self.on_end is None else float("inf")

    @property
    def _limit_at(self) -> float:
        limit_s = self.start.max_runtime_s
        return float("inf") if limit_s is None else self.started_at + limit_s

    def living(self) -> set[int]:
        """Return the pids of its processes that are not reaped."""
        return {process.pid for process in self._all_processes() if process.pid}

    def sessions(self) -> list[tuple[int, int]]:
        """Return pid and start time of its session leaders; none if they cannot be seen."""
        try:
            return [(seen.pid, seen.start) for seen in map(strays.look, self.living()) if seen]
        except OSError:
            return []

    def _all_processes(self) -> list[Process]:
        return self.processes if self.on_end is None else [*self.processes, self.on_end]

    @property
    def is_stopping(self) -> bool:
        """Whether it has its notice, or only its clean-up is left."""
        return self.kill_at < float("inf") or self.on_end is not None

    def leaves_work(self, now: float) -> bool:
        """
        Whether the descendants of its dead processes get the rest of the grace period.

        SIGTERM ends a shell immediately, but not the program that the shell waited for, which may
        be saving its state. A process that ends in another way has decided to end. The same applies
        to that program and to everything that it has started since its notice.
        """
        ends = [(process.signal, process.code) for process in self.processes]
        was_ended = (signal.SIGTERM, None) in ends or (None, _OF_SIGTERM) in ends
        if not was_ended or self.living() or now >= self.kill_at:
            return False
        try:
            return any(map(strays.lives, self.told))
        except OSError:
            return True  # it cannot be seen now, and the grace bounds it

    def fork(self, folder: str, mark: str, cgroup: Cgroup | None, stuck: set[int]) -> None:
        """
        Start every process, in `cgroup` where there is one; `stuck` is that of `program_of`.

        A process that cannot be started ends with a `setup_failure`; later ones are not started.
        """
        with self._inside(cgroup):
            for index, spec in enumerate(self.start.processes):
                self._fork_one(index, spec, f"{folder}/p{index}.log", mark, stuck)
        self.start.processes.clear()
        limit_bytes = self.start.memory_limit_bytes
        if self.cgroup is not None and limit_bytes is not None:
            try:
                self.is_over_memory = not self.cgroup.limit_memory(limit_bytes)
            except OSError as error:
                self.machine_fault = fault_text(error)

    def clean_up(self, mark: str, cgroup: Cgroup | None, stuck: set[int]) -> Process | None:
        """
        Start its `on_end`, in `cgroup` if there is one; None if it has none or cannot start.

        It may run for `on_end_s`, and after a stop at most until the grace period ends.
        """
        spec, now = self.start.on_end, boot_time()
        if spec is None:
            return None
        latest = min(self.end_by, self._limit_at + self.start.grace_s)
        self.kill_at = min(now + self.start.on_end_s, latest)
        self.kill_pause_s = self.kill_again_at = 0.0
        spec.env.update(self._clean_up_env())
        log = self.processes[0].spool
        process = self.on_end = Process(log)
        self.cleaned_from = self.processes[0].size_bytes
        command = " ".join(self.start.on_end_words or spec.argv)
        self.note(f"\n[bastion: on_end: {command:.500}]\n".encode(errors="replace"))
        write_end = -1
        try:
            if self.kill_at <= now:
                raise ValueError("no time is left in its grace period")
            process.pipe, write_end = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(process.pipe, False)
            with self._inside(cgroup):
                process.pid = self._spawn(spec, write_end, mark, stuck)
        except (OSError, ValueError, MemoryError) as error:
            process.close_pipe()
            self._record_clean_up_failure(why_not(spec, error))
            return None
        finally:
            if write_end >= 0:
                os.close(write_end)
        return process

    def record_clean_up(self, status: int, now: float) -> None:
        """Record the end of its `on_end`, whose wait status is `status`."""
        assert self.on_end is not None
        self.on_end.record_exit(status, now)
        if now >= self.kill_at:
            self._record_clean_up_failure(f"was killed after {now - self.on_end.started_at:.1f} s")
        elif self.on_end.signal is not None:
            self._record_clean_up_failure(f"was killed by signal {self.on_end.signal}")
        elif self.on_end.code:
            self._record_clean_up_failure(f"exited with code {self.on_end.code}")

    def _record_clean_up_failure(self, why: str) -> None:
        self.on_end_problem = why
        self.note(f"[bastion: on_end {why}]\n".encode(errors="replace"))

    def _clean_up_env(self) -> dict[str, str]:
        first = self.first_failed
        code = None if first is None else self.processes[first]
        number = 0 if code is None else code.code if code.signal is None else -code.signal
        return {
            OUTCOME: self._outcome(),
            EXIT_CODE: "" if number is None else str(number),
        }

    def _outcome(self) -> str:
        """Return how its processes ended, as far as this machine knows."""
        if self.is_over_memory and self.first_failed is not None:
            return "out_of_memory"
        if self.machine_fault:
            return "lost"
        if any(process.setup_failure for process in self.processes):
            return "setup_failed"
        if self.first_failed is not None and self.failed_by_itself:
            return "failed"
        return outcome_after(str(self.notices[0]["reason"])) if self.notices else "succeeded"

    def note(self, data: bytes) -> None:
        """Append a line of the keeper to the log of the first process."""
        if self.processes and self.processes[0].spool is not None:
            self.processes[0].spool.put(data, boot_time())

    @contextlib.contextmanager
    def _inside(self, cgroup: Cgroup | None) -> Iterator[None]:
        """Fork the processes of the `with` block in `cgroup`, which becomes the attempt's own."""
        with contextlib.suppress(OSError):
            if cgroup is not None:
                cgroup.enter()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if cgroup is not None:
                    # A cgroup that the keeper cannot leave is never used: killing it kills us.
                    cgroup.leave()
                    self.cgroup = cgroup

    def remove_cgroup(self) -> bool:
        """
        Remove its cgroup, if it has one; return False while a process lives inside.

        Kills by the memory limit are recorded before.

        Raises:
            OSError: They cannot be seen.
        """
        if self.cgroup is None:
            return True
        self.is_over_memory |= self.on_end is None and self.cgroup.oom_kills() > 0
        if not self.cgroup.remove():
            return False
        self.cgroup = None
        return True

    def _fork_one(
        self, index: int, spec: ProcessSpec, log_path: str, mark: str, stuck: set[int]
    ) -> None:
        process = Process(None)
        self.processes.append(process)
        if self.first_failed is not None:
            process.setup_failure = f"not started: p{self.first_failed} could not be"
            process.ended_at = boot_time()
            return
        write_end = -1
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(log_path), 0o700)
            process.spool = Spool(log_path, limit_bytes=self.start.spool_limit_bytes)
            process.pipe, write_end = os.pipe2(os.O_CLOEXEC)
            if write_end > os.sysconf("SC_OPEN_MAX") - SPARE_FILES:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            os.set_blocking(process.pipe, False)
            process.pid = self._spawn(spec, write_end, mark, stuck)
        except (OSError, ValueError, MemoryError) as error:
            process.setup_failure = why_not(spec, error)
            self.machine_fault = spawn_fault(error)
            process.ended_at = boot_time()
            process.close_pipe()
            self.record_failure(index)
        finally:
            if write_end >= 0:
                os.close(write_end)

    def _spawn(self, spec: ProcessSpec, output: int, mark: str, stuck: set[int]) -> int:
        pid = spawn(
            spec,
            output=output,
            umask=self.start.umask,
            mark=mark,
            stuck=stuck,
            run_as=self.start.run_as,
        )
        self.leaders.add(pid)
        return pid

    def record_failure(self, index: int) -> bool:
        """Record that process `index` failed; return whether it is the first to fail."""
        if self.first_failed is not None:
            return False
        self.first_failed = index
        self.failed_by_itself = not self.notices
        return True

    def write_notice(self, reason: str, by: str, grace_s: float) -> None:
        """Write the notice file; a stop does not fail if it cannot be written."""
        path = self.start.notice_path
        if not path:
            return
        notice = {"reason": reason, "by": by, "grace_s": grace_s, "deadline": time.time() + grace_s}
        with contextlib.suppress(OSError):
            replace_file(path, json.dumps(notice).encode() + b"\n")

    def died(self, at: float) -> None:
        """Drain the pipes and keep the last lines, once everything is dead."""
        for index, process in enumerate(self._all_processes()):
            if process.pipe >= 0:
                # A foreign process may hold the other end and write forever: do not wait for EOF.
                for _ in range(_LAST_READS):
                    process.read(at)
                process.close_pipe()
            # The record is written to disk, and a process may have printed its secrets.
            is_recorded = index == self.first_failed and not self.start.secrets
            if self.on_end is None and is_recorded and process.spool:
                self.last_lines = process.spool.tail(LAST_LINES_BYTES)

    def close(self, at: float) -> dict[str, object]:
        """Close the logs and return the fields of `ExitRecord`; called after `died`."""
        for process in self.processes:
            if process.spool:
                process.spool.close(at)
        first = self.notices[0]["reason"] if self.notices else ""
        has_failed = first == IDLE or (self.first_failed is not None and self.failed_by_itself)
        is_held = has_failed and self.start.hold_s > 0 and not self.machine_fault
        return {
            "key": self.key,
            "life": self.life,
            "started_at": self.started_at,
            "ended_at": at,
            "processes": [_exit_fields(process) for process in self.processes],
            "notices": self.notices,
            "first_failed": self.first_failed,
            "failed_by_itself": self.failed_by_itself,
            "last_lines": (self.last_lines or b"").decode("utf-8", "replace"),
            "timed_out": first == TIME_LIMIT,
            "out_of_memory": self.is_over_memory and self.first_failed is not None,
            "lost": False,
            "idle": self.idle if first == IDLE else "",
            "on_end": self.on_end_problem,
            # Earlier builds cannot read a record with this field: it is written only if needed.
            **({} if self.cleaned_from is None else {"cleaned_from": self.cleaned_from}),
            "hold_until": min(at + self.start.hold_s, self._limit_at) if is_held else None,
            "machine_fault": self.machine_fault,
        }

    def state(self) -> dict[str, object]:
        """Return the fields of `Running`."""
        return {
            "key": self.key,
            "started_at": self.started_at,
            "pids": [process.pid or None for process in self.processes],
            "log_sizes_bytes": [process.size_bytes for process in self.processes],
            "notices": self.notices,
            "idle": self.idle,
        }


def lost_record(
    entry: dict[str, object], sizes_bytes: list[int], at: float, *, has_cleaned_up: bool
) -> dict[str, object]:
    """Make the record of an attempt whose keeper died while it ran."""
    unknown = {"code": None, "signal": None, "setup_failure": "", "dropped_bytes": 0}
    return {
        "key": entry["exec"],
        "life": entry["life"],
        "started_at": entry["at"],
        "ended_at": at,
        "processes": [{**unknown, "ended_at": at, "log_size_bytes": size} for size in sizes_bytes],
        "notices": [],
        "first_failed": None,
        "failed_by_itself": False,
        "last_lines": "",
        "timed_out": False,
        "out_of_memory": False,
        "lost": True,
        "on_end": "died with its keeper" if has_cleaned_up else "",
    }


def _exit_fields(process: Process) -> dict[str, object]:
    return {
        "code": process.code,
        "signal": process.signal,
        "setup_failure": process.setup_failure,
        "ended_at": process.ended_at,
        "log_size_bytes": process.size_bytes,
        "dropped_bytes": process.spool.dropped if process.spool else 0,
        "untold_bytes": process.spool.untold if process.spool else 0,
    }
