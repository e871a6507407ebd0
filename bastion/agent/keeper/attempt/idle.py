"""
Whether an attempt is hung: it has shown no sign of life for its time. Standard library only.

Signs are what its processes print, use of its devices, and use of processors: a tenth of one core,
over all it has started, for less is what idle threads burn. Time is counted while the machine is
awake, so that one that slept is not taken for hung when it wakes.

Device use is what nvidia-smi says of the devices it was given, asked some sixty times in its time.
Where there is no nvidia-smi, or it does not answer, that sign is never seen.

Before it acts, the watchdog has the stacks of everything put into the attempt's log, by a program
of its own (`stacks`): what a hung process does to whoever reads its memory must not befall
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
"""Of one core: NCCL's and torch's own watchdog threads burn a hundredth, any real work more."""

_ASK_S = 20.0
"""Until an nvidia-smi that does not answer is killed; it takes a second or two on eight devices."""

_DUMP_S = 40.0
"""Until a dump is cut off; it ends itself before, see `stacks`."""

_TICKS = os.sysconf("SC_CLK_TCK")
_NEVER = float("inf")

_DUMP = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from bastion.agent.keeper.attempt.stacks import"
)
_ROOT = os.path.abspath(os.path.join(__file__, *[".."] * 5))


class Watchdog:
    """
    Watches every attempt that has a rule.

    Args:
        tree: What belongs to an attempt.
        tools: Runs programs.
        hung: Is told of an attempt that is hung once its stacks are in its log, and what it has
            not shown; with no text, that one that was hung goes on.
    """

    def __init__(self, tree: Tree, tools: Tools, hung: Callable[[Attempt, str], None]) -> None:
        self._tree = tree
        self._tools = tools
        self._hung = hung

    def begin(self, attempt: Attempt) -> None:
        """Watch `attempt`, which has just started, if it has a rule by which that can be done."""
        rule = attempt.start.idle
        if rule is not None:
            watch = Watch(rule, attempt.start.path, awake())
            if watch.smi or rule.signs != ["devices"]:
                attempt.watch = watch

    def look(self, attempt: Attempt) -> float:
        """Look at `attempt` if it is time; how many seconds until the next time."""
        watch = attempt.watch
        if watch is None or attempt.is_stopping:
            return _NEVER
        now = awake()
        # Its time comes before the next look: an nvidia-smi that never answers must not put it off.
        is_silent = now >= watch.seen_at + watch.rule.timeout_s
        if watch.tool is None and is_silent and not watch.is_told:
            self._dump(attempt, watch)
        elif watch.tool is None and now >= watch.look_at:
            watch.look_at = now + watch.pause_s
            self._see_processors(attempt, watch, now)
            if watch.smi:
                self._ask_devices(attempt, watch)
        silent_until = watch.seen_at + watch.rule.timeout_s
        if watch.is_told or watch.tool is not None:
            silent_until = _NEVER
        next_at = min(watch.look_at, silent_until)
        return next_at - now if next_at > now else watch.pause_s

    def printed(self, attempt: Attempt) -> None:
        """A process of `attempt` has written something."""
        if attempt.watch is not None and "output" in attempt.watch.rule.signs:
            self._see(attempt, attempt.watch)

    def forget(self, attempt: Attempt) -> None:
        """`attempt` ends: nothing more is asked of it."""
        watch, attempt.watch = attempt.watch, None
        if watch is not None and watch.tool is not None:
            self._tools.drop(watch.tool)

    def _see(self, attempt: Attempt, watch: Watch) -> None:
        watch.seen_at = awake()
        if watch.is_told and not attempt.is_stopping:
            watch.is_told = False
            self._hung(attempt, "")

    def _see_processors(self, attempt: Attempt, watch: Watch, now: float) -> None:
        if "processor" not in watch.rule.signs:
            return
        used_s = sum(map(_processor_s, self._tree.members(attempt)))
        before, watch.looked = watch.looked, (now, used_s)
        if before is None:
            return
        # The clock of processor time ticks in hundredths: a short pause would see a tick as work.
        if used_s - before[1] > max(_BUSY * (now - before[0]), 2 / _TICKS):
            self._see(attempt, watch)

    def _ask_devices(self, attempt: Attempt, watch: Watch) -> None:
        def answered(said: bytes, _is_whole: bool) -> None:
            watch.tool = None
            if attempt.watch is watch and watch.rule.devices & used_devices(said):
                self._see(attempt, watch)

        watch.tool = self._tools.run(
            [watch.smi, "--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits"],
            path=watch.path,
            until=boot_time() + min(_ASK_S, watch.rule.timeout_s),
            then=answered,
        )

    def _dump(self, attempt: Attempt, watch: Watch) -> None:
        text = watch.text()
        mains = {process.pid: f"p{i}" for i, process in enumerate(attempt.processes)}
        pids = [f"{pid}:{mains.get(pid, '')}" for pid in sorted(self._tree.members(attempt))]
        watch.is_told = True

        trust = [] if attempt.start.run_as is None else [SYSTEM_ONLY]

        def dumped(said: bytes, is_whole: bool) -> None:
            watch.tool = None
            if attempt.watch is not watch:
                return
            those = "process" if len(pids) == 1 else f"{len(pids)} processes"
            head = f"\n[bastion: {text}; the stacks of its {those}:]\n"
            tail = b"[bastion: end of the stacks]\n" if is_whole else b"\n[bastion: cut off here]\n"
            attempt.note(head.encode() + said + tail)
            if watch.is_told:
                self._hung(attempt, text)

        watch.tool = self._tools.run(
            [sys.executable, "-I", "-S", "-c", f"{_DUMP} main; main()", _ROOT, *trust, *pids],
            path=watch.path,
            until=boot_time() + _DUMP_S,
            then=dumped,
        )
        if watch.tool is None:
            dumped(b"they cannot be had: no program can be started\n", True)


def used_devices(said: bytes) -> set[int]:
    """The devices that nvidia-smi calls used: lines of `index, percent`; others say nothing."""
    used = set()
    for line in said.decode("utf-8", "replace").splitlines():
        index, _, percent = (part.strip() for part in line.partition(","))
        if index.isdecimal() and percent.isdecimal() and int(percent) > 0:
            used.add(int(index))
    return used


def awake() -> float:
    """Seconds that this machine was awake since its boot."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def _processor_s(pid: int) -> float:
    """What a process and the children it has waited for have used of processors, in seconds."""
    stat = strays.read(f"/proc/{pid}/stat", 1024)
    fields = stat[stat.rfind(b")") + 2 :].split()
    return sum(map(int, fields[11:15])) / _TICKS if len(fields) > 15 else 0.0
