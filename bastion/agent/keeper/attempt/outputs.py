"""What running processes write: read as it comes, and told as the logs grow; standard library."""

from __future__ import annotations

from bastion.agent.keeper.attempt.process import boot_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bastion.agent.keeper.attempt.attempt import Attempt
    from bastion.agent.keeper.attempt.process import Process
    from bastion.agent.keeper.poller import Poller

_TELL_EVERY_S = 0.05
"""Between two tellings of one log's growth; the first is told at once."""


class Outputs:
    """
    The logs of all running attempts.

    Args:
        poller: Waits for the pipes.
        printed: Is told of every attempt that has written something.
        tell: Takes an event for all who watch.
    """

    def __init__(
        self,
        poller: Poller,
        printed: Callable[[Attempt], None],
        tell: Callable[[dict[str, object]], None],
    ) -> None:
        self._poller = poller
        self._printed = printed
        self._tell = tell
        self._grown: dict[tuple[str, int], Process] = {}

    def listen(self, attempt: Attempt, index: int, process: Process) -> None:
        """
        Read what `process` writes, as it comes, into the log of the process `index`.

        Raises:
            OSError: The machine has no room for it.
        """

        def read() -> None:
            self._printed(attempt)
            if not process.read(boot_time()):
                self._poller.unwatch(process.pipe)
                process.close_pipe()
            log = attempt.processes[index]
            if log.size_bytes > log.told_bytes:
                self._grown[attempt.key, index] = log

        self._poller.watch(process.pipe, read)

    def noted(self, attempt: Attempt) -> None:
        """The keeper itself has written into the log of the first process."""
        self._grown[attempt.key, 0] = attempt.processes[0]

    def stop(self, attempt: Attempt) -> None:
        """Listen to no process of `attempt` any more: all of them are dead."""
        for process in (*attempt.processes, attempt.on_end):
            if process is not None and process.pipe >= 0:
                self._poller.unwatch(process.pipe)

    def forget(self, attempt: Attempt) -> None:
        """Tell nothing more of `attempt`: its record says how large its logs are."""
        for index in range(len(attempt.processes)):
            self._grown.pop((attempt.key, index), None)

    def turn(self, now: float) -> float:
        """Tell what has grown; when to come again, infinite where the next bytes will say so."""
        next_at = float("inf")
        for (name, index), process in tuple(self._grown.items()):
            if now < process.told_at + _TELL_EVERY_S:
                next_at = min(next_at, process.told_at + _TELL_EVERY_S)
                continue
            process.told_at = now
            process.told_bytes = process.size_bytes
            del self._grown[name, index]
            event = {"event": "output", "key": name, "process": index}
            self._tell({**event, "size_bytes": process.size_bytes})
        return next_at
