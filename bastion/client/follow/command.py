"""A command beside a job's processes: its output as it comes, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bastion.client.patience import Outage
from bastion.clock import Clock
from bastion.errors import NotFoundError, SpecError, StoreError
from bastion.logs.segments import segment_key
from bastion.records.keys import layout
from bastion.records.register import look
from bastion.records.reports.registers import CommandEnd
from bastion.store.port import ObjectStore

_LOOK_AT_JOB_S = 5.0
"""Between two checks whether the job has ended, and its machine with it."""
_LAST_WORD_S = 60.0
"""After the job has ended, a command's output and end arrive no later than this."""


def arguments(argv: Sequence[str]) -> tuple[str, ...]:
    """
    Return the program and its arguments, unchanged.

    Raises:
        SpecError: It is a single string, or an argument is not a string.
    """
    if isinstance(argv, str):
        raise SpecError(
            f"argv: {argv!r} is one string; give a list of arguments ({argv.split()!r}), or a shell"
            f" line: {['sh', '-c', argv]!r}"
        )
    for each in argv:
        if not isinstance(each, str):
            raise SpecError(f"argv: {each!r} is not a string")
    return tuple(argv)


class Command:
    """
    A command that the bastion has accepted.

    Args:
        store: The bucket, read without retries.
        project: The project of the job that it runs beside.
        job: That job's id.
        name: The id of the request for it.
        clock: Used for waiting.
        poll_s: Seconds between two polls.
        outage: Records whether the store answers.
        is_over: Whether the job has ended.
    """

    def __init__(
        self,
        store: ObjectStore,
        project: str,
        job: str,
        name: str,
        clock: Clock,
        *,
        poll_s: float,
        outage: Outage,
        is_over: Callable[[], bool],
    ) -> None:
        self.job = job
        self.end: CommandEnd | None = None
        """How it ended; None until `output` is read to its end."""
        self._store = store
        self._prefix = layout.command_log(project, job, name)
        self._clock = clock
        self._poll_s = poll_s
        self._outage = outage
        self._is_over = is_over

    def __repr__(self) -> str:
        if self.end is None:
            return f"<a command beside {self.job}: .output() is what it prints, then .end its end>"
        how = self.end.problem or f"code {self.end.code}"
        return f"<a command beside {self.job} has ended: {how}>"

    def output(self) -> Iterator[bytes]:
        """
        Yield its output as it comes, to its end; `end` says if the job's machine lost some.

        Raises:
            StoreRefusedError: The store has refused it for a minute, and serves the rest.
        """
        offset = 0
        look_at = self._clock.monotonic() + _LOOK_AT_JOB_S
        over_at = float("inf")
        while True:
            try:
                while data := self._stored(offset):
                    yield data
                    offset += len(data)
                self.end = look(self._store, layout.command_end(self._prefix), CommandEnd)
                self._outage.over(of=self._prefix)
            except StoreError as error:
                self._outage.met(error, of=self._prefix)
            if self.end is not None and offset >= self.end.size_bytes:
                return
            now = self._clock.monotonic()
            if now > over_at:
                self.end = CommandEnd(write_id="", problem="its job and its machine have ended")
                return
            if now >= look_at:
                look_at = now + _LOOK_AT_JOB_S
                over_at = min(over_at, now + _LAST_WORD_S) if self._is_over() else float("inf")
            self._clock.sleep(self._poll_s)

    def _stored(self, offset: int) -> bytes:
        try:
            found = self._store.read(segment_key(self._prefix, offset))
        except NotFoundError:
            return b""
        return found.data if found is not None else b""
