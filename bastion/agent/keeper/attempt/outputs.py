"""The output of running processes: read as it comes, growth reported; standard library only."""

from __future__ import annotations

from bastion.agent.keeper.attempt.process import boot_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bastion.agent.keeper.attempt.attempt import Attempt
    from bastion.agent.keeper.attempt.process import Process
    from bastion.agent.keeper.poller import Poller

_REPORT_EVERY_S = 0.05
"""Between two reports of one log's growth; the first is sent immediately."""


class Outputs:
    """
    The logs of all running attempts.

    Args:
        poller: Watches the pipes.
        printed: Called with every attempt that has written something.
        publish: Takes an event for the connections that watch.
    """

    def __init__(
        self,
        poller: Poller,
        printed: Callable[[Attempt], None],
        publish: Callable[[dict[str, object]], None],
    ) -> None:
        self._poller = poller
        self._printed = printed
        self._publish = publish
        self._grown: dict[tuple[str, int], Process] = {}

    def listen(self, attempt: Attempt, index: int, process: Process) -> None:
        """
        Read what `process` writes, as it comes, into the log of process `index`.

        Raises:
            OSError: The kernel has no room for its descriptor.
        """

        def read() -> None:
            self._printed(attempt)
            if not process.read(boot_time()):
                self._poller.unwatch(process.pipe)
                process.close_pipe()
            log = attempt.processes[index]
            if log.size_bytes > log.reported_bytes:
                self._grown[attempt.key, index] = log

        self._poller.watch(process.pipe, read)

    def mark_grown(self, attempt: Attempt) -> None:
        """Record that the keeper itself has written into the log of the first process."""
        self._grown[attempt.key, 0] = attempt.processes[0]

    def stop(self, attempt: Attempt) -> None:
        """Stop watching the pipes of `attempt`, whose processes are all dead."""
        for process in (*attempt.processes, attempt.on_end):
            if process is not None and process.pipe >= 0:
                self._poller.unwatch(process.pipe)

    def forget(self, attempt: Attempt) -> None:
        """Report no more growth of `attempt`: its record has the sizes of its logs."""
        for index in range(len(attempt.processes)):
            self._grown.pop((attempt.key, index), None)

    def turn(self, now: float) -> float:
        """Report the logs that have grown; return when to call again, infinite if none is due."""
        next_at = float("inf")
        for (name, index), process in tuple(self._grown.items()):
            if now < process.reported_at + _REPORT_EVERY_S:
                next_at = min(next_at, process.reported_at + _REPORT_EVERY_S)
                continue
            process.reported_at = now
            process.reported_bytes = process.size_bytes
            del self._grown[name, index]
            event = {"event": "output", "key": name, "process": index}
            self._publish({**event, "size_bytes": process.size_bytes})
        return next_at
