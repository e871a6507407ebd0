"""
The watchdog: an attempt without a sign of life for its idle timeout is hung. Standard library only.

Signs are output of its processes, use of its devices, and CPU use. The last is a tenth of one core
over all its processes, since idle threads use less. Only time in which the machine is awake counts,
so an attempt is not hung because the machine was suspended.

Device use is what nvidia-smi reports for its devices, queried about sixty times per idle timeout.
If nvidia-smi is missing or does not answer, that sign is never seen.

Before it acts, the watchdog runs a separate program (`stacks`) that writes the stacks of all
processes into the attempt's log. Reading the memory of a hung process may block, and must not block
the keeper.
"""

from __future__ import annotations

import os
import sys
import time

from bastion.agent.keeper.attempt.process import boot_time
from bastion.agent.keeper.attempt.signs_of_life import Watch
from bastion.agent.keeper.attempt.tools import SYSTEM_ONLY, Tools
from bastion.agent.machine import stray_processes as strays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bastion.agent.keeper.attempt.attempt import Attempt
    from bastion.agent.keeper.attempt.process_tree import Tree

_BUSY = 0.1
"""Share of one core: watchdog threads of NCCL and torch use a hundredth, any real work more."""

_SMI_S = 20.0
"""Timeout of nvidia-smi, which takes a second or two on eight devices."""

_DUMP_S = 40.0
"""Timeout of a dump, which normally ends by itself earlier; see `stacks`."""

_TICKS = os.sysconf("SC_CLK_TCK")
_NEVER = float("inf")

_DUMP = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from bastion.agent.keeper.attempt.stacks import"
)
_ROOT = os.path.abspath(os.path.join(__file__, *[".."] * 5))


class Watchdog:
    """
    Watches every attempt that has an idle rule.

    Args:
        tree: The processes of an attempt.
        tools: Runs programs.
        hung: Called with a hung attempt, once its stacks are in its log, and a text that names the
            missing signs; with an empty text once that attempt shows a sign again.
    """

    def __init__(self, tree: Tree, tools: Tools, hung: Callable[[Attempt, str], None]) -> None:
        self._tree = tree
        self._tools = tools
        self._hung = hung

    def begin(self, attempt: Attempt) -> None:
        """Watch `attempt`, which has just started, if it has a rule with a sign to watch."""
        rule = attempt.start.idle
        if rule is not None:
            watch = Watch(rule, attempt.start.path, awake())
            if watch.smi or rule.signs != ["devices"]:
                attempt.watch = watch

    def look(self, attempt: Attempt) -> float:
        """Check `attempt` if that is due; return the seconds until the next check."""
        watch = attempt.watch
        if watch is None or attempt.is_stopping:
            return _NEVER
        now = awake()
        # Checked before the next query: an nvidia-smi that never answers must not delay it.
        is_silent = now >= watch.seen_at + watch.rule.timeout_s
        if watch.tool is None and is_silent and not watch.is_reported:
            self._dump(attempt, watch)
        elif watch.tool is None and now >= watch.check_at:
            watch.check_at = now + watch.pause_s
            self._check_processors(attempt, watch, now)
            if watch.smi:
                self._query_devices(attempt, watch)
        silent_until = watch.seen_at + watch.rule.timeout_s
        if watch.is_reported or watch.tool is not None:
            silent_until = _NEVER
        next_at = min(watch.check_at, silent_until)
        return next_at - now if next_at > now else watch.pause_s

    def saw_output(self, attempt: Attempt) -> None:
        """Record that a process of `attempt` has written something."""
        if attempt.watch is not None and "output" in attempt.watch.rule.signs:
            self._record_sign(attempt, attempt.watch)

    def forget(self, attempt: Attempt) -> None:
        """Stop watching `attempt`."""
        watch, attempt.watch = attempt.watch, None
        if watch is not None and watch.tool is not None:
            self._tools.drop(watch.tool)

    def _record_sign(self, attempt: Attempt, watch: Watch) -> None:
        watch.seen_at = awake()
        if watch.is_reported and not attempt.is_stopping:
            watch.is_reported = False
            self._hung(attempt, "")

    def _check_processors(self, attempt: Attempt, watch: Watch, now: float) -> None:
        if "processor" not in watch.rule.signs:
            return
        used_s = sum(map(_processor_s, self._tree.members(attempt)))
        before, watch.checked = watch.checked, (now, used_s)
        if before is None:
            return
        # CPU time is counted in hundredths: in a short pause one tick would look like work.
        if used_s - before[1] > max(_BUSY * (now - before[0]), 2 / _TICKS):
            self._record_sign(attempt, watch)

    def _query_devices(self, attempt: Attempt, watch: Watch) -> None:
        def answered(output: bytes, _is_whole: bool) -> None:
            watch.tool = None
            if attempt.watch is watch and watch.rule.devices & used_devices(output):
                self._record_sign(attempt, watch)

        watch.tool = self._tools.run(
            [watch.smi, "--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits"],
            path=watch.path,
            until=boot_time() + min(_SMI_S, watch.rule.timeout_s),
            then=answered,
        )

    def _dump(self, attempt: Attempt, watch: Watch) -> None:
        text = watch.text()
        mains = {process.pid: f"p{i}" for i, process in enumerate(attempt.processes)}
        pids = [f"{pid}:{mains.get(pid, '')}" for pid in sorted(self._tree.members(attempt))]
        watch.is_reported = True

        trust = [] if attempt.start.run_as is None else [SYSTEM_ONLY]

        def dumped(output: bytes, is_whole: bool) -> None:
            watch.tool = None
            if attempt.watch is not watch:
                return
            noun = "process" if len(pids) == 1 else f"{len(pids)} processes"
            head = f"\n[bastion: {text}; the stacks of its {noun}:]\n"
            tail = b"[bastion: end of the stacks]\n" if is_whole else b"\n[bastion: cut off here]\n"
            attempt.note(head.encode() + output + tail)
            if watch.is_reported:
                self._hung(attempt, text)

        watch.tool = self._tools.run(
            [sys.executable, "-I", "-S", "-c", f"{_DUMP} main; main()", _ROOT, *trust, *pids],
            path=watch.path,
            until=boot_time() + _DUMP_S,
            then=dumped,
        )
        if watch.tool is None:
            dumped(b"no stacks: no program can be started\n", True)


def used_devices(output: bytes) -> set[int]:
    """Return the devices in use, from nvidia-smi's lines of `index, percent`; skip other lines."""
    used = set()
    for line in output.decode("utf-8", "replace").splitlines():
        index, _, percent = (part.strip() for part in line.partition(","))
        if index.isdecimal() and percent.isdecimal() and int(percent) > 0:
            used.add(int(index))
    return used


def awake() -> float:
    """Return the seconds since boot, without suspended time."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def _processor_s(pid: int) -> float:
    """Return the CPU seconds of a process and of the children that it has waited for."""
    stat = strays.read(f"/proc/{pid}/stat", 1024)
    fields = stat[stat.rfind(b")") + 2 :].split()
    return sum(map(int, fields[11:15])) / _TICKS if len(fields) > 15 else 0.0
