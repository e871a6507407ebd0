"""
The keeper's loop: one thread, one `epoll`, every decision about running attempts.

A turn polls, reads requests and output, reaps, and checks the clocks. It then commits everything it
decided with a single sync of the journal, before it forks a process or reports an event. Standard
library only; it must not know the network or what a job is.
"""

from __future__ import annotations

import os
import signal
import traceback

from bastion.agent.keeper import reasons
from bastion.agent.keeper.attempt.attempt import Attempt
from bastion.agent.keeper.attempt.idle import Watchdog
from bastion.agent.keeper.attempt.outputs import Outputs
from bastion.agent.keeper.attempt.process import boot_time
from bastion.agent.keeper.attempt.process_tree import Tree
from bastion.agent.keeper.attempt.spool import remove_spool
from bastion.agent.keeper.attempt.tools import Tools
from bastion.agent.keeper.listener import Listener
from bastion.agent.keeper.poller import Poller, drain, signal_pipe
from bastion.agent.keeper.socket import request
from bastion.agent.keeper.socket.server import AnswerError, Connection, Server
from bastion.agent.keeper.termination import Termination
from bastion.agent.machine import stray_processes as strays
from bastion.agent.machine.machine_fault import fault_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bastion.agent.keeper.attempt.cgroup import Cgroups
    from bastion.agent.keeper.attempt.process import Process
    from bastion.agent.keeper.journal import Journal

_BY = "keeper"
_NEVER = float("inf")

_LONGEST_WAIT_S = 1.0
"""`epoll` does not count the time of a suspended machine: check the boot clock this often."""


class Loop:
    """
    The keeper of one home, in one life.

    Args:
        folder: The keeper's folder, absolute.
        mark_prefix: What the mark of every process starts with; the key follows.
        journal: Replayed, with a record for every attempt that older lives started.
        permit_s: How long processes may run without a renewed permit; 0: forever.
        environ: The keeper's own variables, for the programs that it runs for its own use.
    """

    def __init__(
        self,
        *,
        folder: str,
        mark_prefix: str,
        journal: Journal,
        cgroups: Cgroups,
        permit_s: float,
        environ: Mapping[str, str],
    ) -> None:
        self._folder = folder
        self._mark_prefix = mark_prefix
        self._journal = journal
        self._cgroups = cgroups
        self._boot = strays.boot_id()
        self._permit_until = boot_time() + permit_s if permit_s > 0 else _NEVER
        self._running: dict[str, Attempt] = {}
        self._mains: dict[int, Attempt] = {}
        self._undoing: dict[int, Attempt] = {}
        self._poller = Poller()
        self._tools = Tools(self._poller.watch, self._poller.unwatch, environ)
        self._stuck: set[int] = set()
        """Children that look for a program on a disk that does not answer."""
        spared = (self._undoing, self._tools, self._stuck)
        self._tree = Tree(mark_prefix, self._mains, self._running, spared=spared)
        self._watchdog = Watchdog(self._tree, self._tools, self._hung)
        self._secrets: dict[str, list[str]] = {}
        self._to_clean: list[Attempt] = []
        self._to_fork: list[tuple[Attempt, Connection, object]] = []
        self._events: list[dict[str, object]] = []
        self._wake_at = self._permit_until
        self._is_ending = False
        verbs = {
            "start": self._start,
            "stop": self._stop,
            "limit": self._limit,
            "permit": self._permit,
            "list": self._list,
            "forget": self._forget,
            "ping": self._ping,
            "watch": self._watch_events,
        }
        self._server = Server(folder, verbs)
        self._listener = Listener(self._server, self._poller, self._wake)
        self._outputs = Outputs(self._poller, self._watchdog.saw_output, self._server.publish)
        self._termination = Termination(
            self._tree,
            self._watchdog,
            self._outputs,
            self._journal,
            running=self._running,
            undoing=self._undoing,
            wake=self._wake,
        )

    def run(self, ready: Callable[[], None]) -> None:
        """Call `ready`, and serve until SIGTERM has arrived and nothing runs."""
        self._listener.listen()
        signals = signal_pipe()
        self._poller.watch(signals, lambda: drain(signals))
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._begin_end())
        ready()
        while self._running or not self._is_ending:
            self._turn()
        self._tools.end()
        self._server.end()

    def _turn(self) -> None:
        # 1. Poll, and read requests and output.
        wait_s = min(_LONGEST_WAIT_S, max(0.0, self._wake_at - boot_time()))
        self._poller.wait(wait_s if self._wake_at < _NEVER else -1)
        # 2. Reap processes, and enforce the time limits.
        self._reap()
        if self._is_ending or boot_time() >= self._wake_at:
            self._check_clocks()
        # 3. Advance terminations; record the attempts that are over.
        for_clean_up, records = self._termination.turn()
        self._to_clean += for_clean_up
        self._events += ({"event": "exited", "record": record} for record in records)
        # 4. One sync for all of it; nothing is forked or reported before.
        self._commit()
        # 5. Report how far the logs have grown.
        self._wake(self._outputs.turn(boot_time()))

    def _wake(self, at: float) -> None:
        self._wake_at = min(self._wake_at, at)

    # Requests.

    def _start(self, connection: Connection, fields: dict[str, object]) -> None:
        start = request.Start(fields)
        if start.key in self._journal.entries:
            raise AnswerError("conflict", f"{start.key} was started before")
        if self._is_ending:
            raise AnswerError("ending", "the keeper is ending")
        if boot_time() >= self._permit_until:
            raise AnswerError("ending", "the permit has expired: this keeper life ends")
        at = boot_time()
        attempt = Attempt(
            start, life=self._journal.life, now=at, mark=self._mark_prefix + start.key
        )
        self._journal.exec(
            start.key,
            at=at,
            processes=len(start.processes),
            has_secrets=bool(start.secrets),
            undo=start.undo,
        )
        self._to_fork.append((attempt, connection, fields.get("id")))

    def _stop(self, _connection: Connection, fields: dict[str, object]) -> dict[str, object]:
        key = request.key(fields)
        reason, by = (
            request.text(fields.get("reason"), "reason"),
            request.text(fields.get("by"), "by"),
        )
        grace_s = request.seconds(fields.get("grace_s"), "grace_s")
        if key not in self._journal.entries:
            raise AnswerError("not found", f"no attempt {key}")
        self._commit()
        if key in self._running:
            self._running[key].start.hold_s = 0.0
            self._give_notice(self._running[key], reason, by, grace_s)
        return {}

    def _limit(self, _connection: Connection, fields: dict[str, object]) -> dict[str, object]:
        key, limit_s = (
            request.key(fields),
            request.seconds(fields.get("max_runtime_s"), "max_runtime_s"),
        )
        if key not in self._journal.entries:
            raise AnswerError("not found", f"no attempt {key}")
        self._commit()
        if key in self._running:
            self._running[key].start.max_runtime_s = limit_s
            self._wake(self._running[key].limit_at)
        return {}

    def _permit(self, _connection: Connection, fields: dict[str, object]) -> dict[str, object]:
        sent_at = request.seconds(fields.get("sent_at"), "sent_at")
        valid_for_s = request.seconds(fields.get("valid_for_s"), "valid_for_s")
        if sent_at > boot_time():
            raise request.BadRequestError("sent_at lies in the future")
        if boot_time() >= self._permit_until:
            raise AnswerError("ending", "the permit has expired: this keeper life ends")
        if self._permit_until < _NEVER:
            self._permit_until = max(self._permit_until, sent_at + valid_for_s)
            self._wake(self._permit_until)
        return {}

    def _list(self, _connection: Connection, _fields: dict[str, object]) -> dict[str, object]:
        self._commit()
        states: list[object] = []
        for name, entry in self._journal.entries.items():
            running = self._running.get(name)
            state: dict[str, object] = running.state() if running else {"record": entry.record()}
            if entry.started().get("has_secrets"):
                state["secrets"] = self._secrets.get(name)
            states.append(state)
        return {"attempts": states}

    def _forget(self, _connection: Connection, fields: dict[str, object]) -> dict[str, object]:
        key = request.key(fields)
        self._commit()
        if key in self._running:
            raise AnswerError("conflict", f"{key} is running: it can be stopped")
        if key in self._journal.entries:
            self._journal.forget(key)
            self._secrets.pop(key, None)
            remove_spool(self._spool_folder(key))
        return {}

    def _ping(self, _connection: Connection, _fields: dict[str, object]) -> dict[str, object]:
        return {
            "life": self._journal.life,
            "pid": os.getpid(),
            "can_limit_memory": self._cgroups.can_limit_memory,
            "keeps_secrets": True,
            "can_undo": True,
            "can_run_as": True,
        }

    def _watch_events(
        self, connection: Connection, _fields: dict[str, object]
    ) -> dict[str, object]:
        connection.is_watching = True
        return {}

    # Processes.

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._tree.reaped(pid)
            self._stuck.discard(pid)
            attempt = self._mains.pop(pid, None)
            if attempt is not None:
                self._exited(attempt, pid, status)
            elif (undone := self._undoing.pop(pid, None)) is not None:
                undone.undo.record_exit(status, boot_time())
            elif pid in self._tools:
                self._tools.record_exit(pid)

    def _exited(self, attempt: Attempt, pid: int, status: int) -> None:
        if attempt.on_end is not None:
            attempt.record_clean_up(status, boot_time())
        for index, process in enumerate(attempt.processes):
            if process.pid == pid:
                process.record_exit(status, boot_time())
                if process.code != 0:
                    self._failed(attempt, index)
        if not attempt.living():
            self._watchdog.forget(attempt)
            self._termination.begin(attempt)

    def _failed(self, attempt: Attempt, index: int) -> None:
        if attempt.record_failure(index) and attempt.failed_by_itself:
            self._stop_siblings(attempt, index)

    def _stop_siblings(self, attempt: Attempt, index: int) -> None:
        by, grace_s = f"p{index}", attempt.start.grace_s
        self._give_notice(attempt, reasons.SIBLING_FAILED, by, grace_s, is_own=True)

    def _give_notice(
        self, attempt: Attempt, reason: str, by: str, grace_s: float, *, is_own: bool = False
    ) -> None:
        """
        Send SIGTERM to the whole tree and start the grace period, unless all processes are dead.

        SIGCONT follows, so that a stopped process receives the signal. Another job may wait for the
        devices, so the grace period bounds everything: a clean-up gets at most its second half.
        After a fault of the attempt itself (`is_own`) no job waits, and the clean-up gets its own
        time limit.
        """
        self._reap()
        now, kept_s = boot_time(), 0.0
        if not is_own:
            # Also while it is being undone: its clean-up follows.
            attempt.end_by = min(attempt.end_by, now + grace_s)
            if attempt.start.on_end is not None:
                kept_s = min(attempt.start.on_end_s, grace_s / 2)
        if not attempt.living():
            if attempt.leaves_work(now):
                attempt.kill_at = min(attempt.kill_at, now + grace_s - kept_s)
                self._wake(attempt.kill_at)
            return
        if attempt.on_end is not None:
            attempt.kill_at = min(attempt.kill_at, attempt.end_by)
            self._wake(attempt.kill_at)
            return
        given = (reason, by)
        if all((notice["reason"], notice["by"]) != given for notice in attempt.notices):
            attempt.write_notice(reason, by, grace_s - kept_s)
            at = boot_time()
            if self._tree.signal(attempt, signal.SIGTERM, signal.SIGCONT):
                attempt.notices.append({"reason": reason, "by": by, "at": at})
        attempt.kill_at = min(attempt.kill_at, now + grace_s - kept_s)
        self._wake(attempt.kill_at)

    def _check_idle(self, attempt: Attempt) -> None:
        try:
            self._wake(boot_time() + self._watchdog.look(attempt))
        except OSError:
            self._wake(boot_time() + _LONGEST_WAIT_S)  # /proc may be readable by then
        except Exception:  # noqa: BLE001 - a bug of the watchdog must not end all jobs
            traceback.print_exc()
            self._watchdog.forget(attempt)

    def _hung(self, attempt: Attempt, text: str) -> None:
        """Act on a hung attempt whose stacks are in its log; empty `text`: it no longer hangs."""
        self._outputs.mark_grown(attempt)
        attempt.idle = text
        if text and attempt.start.idle is not None and attempt.start.idle.ends:
            self._give_notice(attempt, reasons.IDLE, _BY, attempt.start.grace_s, is_own=True)
        else:
            self._events.append({"event": "idle", "key": attempt.key, "text": text})

    def _check_clocks(self) -> None:
        now = boot_time()
        self._wake_at = _NEVER
        self._wake(self._listener.turn(now))
        if now >= self._permit_until:
            # From now on the bastion may give up everything here, so this life starts nothing more.
            self._stop_all(reasons.LOST_CONTACT, longest_s=reasons.LOST_GRACE_S)
            self._is_ending = True
        elif self._is_ending:
            self._stop_all(reasons.KEEPER_STOPPED)
        self._wake(self._permit_until if now < self._permit_until else _NEVER)
        for attempt in tuple(self._running.values()):
            if now >= attempt.kill_at:
                self._termination.begin(attempt)
            elif now >= attempt.limit_at:
                self._give_notice(attempt, reasons.TIME_LIMIT, _BY, attempt.start.grace_s)
                self._wake(attempt.kill_at)
            else:
                self._wake(min(attempt.kill_at, attempt.limit_at))
                self._check_idle(attempt)
        self._wake(self._tools.check(now))

    def _stop_all(self, reason: str, *, longest_s: float = _NEVER) -> None:
        for attempt in tuple(self._running.values()):
            self._give_notice(attempt, reason, _BY, min(longest_s, attempt.start.grace_s))

    def _begin_end(self) -> None:
        self._is_ending = True
        self._wake(0.0)

    def _commit(self) -> None:
        """
        Sync the journal; then fork the pending starts and report the events.

        An end that has no room on the disk is still reported. Its `exec` is on the disk, so a crash
        can at worst turn it into `lost`, after a client has read how it really ended.
        """
        is_safe = self._journal.commit()
        if self._journal.is_behind:
            self._wake(boot_time() + 1.0)
        waiting, self._to_fork = self._to_fork, []
        for attempt, connection, number in waiting:
            if is_safe:
                self._fork(attempt)
                connection.send({"id": number, "ok": {}})
            else:
                self._journal.withdraw(attempt.key)
                message = f"no start can be recorded: {self._journal.problem}"
                connection.send({"id": number, "error": "machine", "message": message})
        # Run even if the disk is full: no later life would fork it.
        ended, self._to_clean = self._to_clean, []
        for attempt in ended:
            self._clean_up(attempt)
        events, self._events = self._events, []
        for event in events:
            self._server.publish(event)

    def _clean_up(self, attempt: Attempt) -> None:
        mark = self._mark_prefix + attempt.key
        process = attempt.clean_up(mark, self._cgroups.make(limits_memory=False), self._stuck)
        self._outputs.mark_grown(attempt)
        if process is None:
            self._termination.begin(attempt)
            self._wake(0.0)
            return
        self._mains[process.pid] = attempt
        self._listen_to(attempt, 0, process)
        self._journal.leaders(attempt.key, self._boot, attempt.sessions())
        self._wake(attempt.kill_at)

    def _fork(self, attempt: Attempt) -> None:
        self._running[attempt.key] = attempt
        if attempt.start.secrets:
            self._secrets[attempt.key] = attempt.start.secrets
        limits_memory = attempt.start.memory_limit_bytes is not None
        cgroup = self._cgroups.make(limits_memory=limits_memory)
        mark = self._mark_prefix + attempt.key
        attempt.fork(self._spool_folder(attempt.key), mark, cgroup, self._stuck)
        self._wake(attempt.limit_at)
        for index, process in enumerate(attempt.processes):
            if process.pid:
                self._mains[process.pid] = attempt
                self._listen_to(attempt, index, process)
        self._journal.leaders(attempt.key, self._boot, attempt.sessions())
        is_unlimited = attempt.machine_fault and attempt.first_failed is None
        is_over = attempt.is_over_memory or is_unlimited or attempt.key in self._termination
        if is_over or not attempt.living():
            self._termination.begin(attempt)
            self._wake(0.0)
        else:
            self._watchdog.begin(attempt)
            self._check_idle(attempt)
        if attempt.living() and attempt.first_failed is not None:
            self._stop_siblings(attempt, attempt.first_failed)

    def _listen_to(self, attempt: Attempt, index: int, process: Process) -> None:
        try:
            self._outputs.listen(attempt, index, process)
        except OSError as error:
            # Without a reader the process would block forever: treat it as one that cannot start.
            if attempt.on_end is None:
                attempt.machine_fault = fault_text(error)
                attempt.record_failure(index)
            self._termination.begin(attempt)
            self._wake(0.0)

    def _spool_folder(self, of_key: str) -> str:
        return f"{self._folder}/spool/{request.file_name(of_key)}"
