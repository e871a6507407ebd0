"""Commands that are too long for an instruction: their arguments are in an object of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from bastion.agent.attempt_key import command_key, host_named, key_of
from bastion.agent.host.context import Surroundings
from bastion.errors import NotFoundError, OversizeError, RecordError
from bastion.machine import Exec
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import REQUEST_BYTES
from bastion.records.keys import layout
from bastion.records.reports.registers import LongCommand
from bastion.store.port import ObjectStore


class LongCommands:
    """
    The commands whose arguments are being read.

    Args:
        around: The agent's parts.
        run: Runs a command, given the number of its batch and the time; or reports why it does not.
    """

    def __init__(self, around: Surroundings, run: Callable[[int, Exec, float, str], None]) -> None:
        self._around = around
        self._run = run
        self._unread: dict[str, tuple[int, Exec]] = {}

    def read(self, number: int, told: Exec) -> None:
        """Run a command once its arguments have been read."""
        self._around.instructions.begin(command_key(key_of(host_named(told)), told.id), number)
        self._unread[told.id] = number, told

    def turn(self, now: float) -> None:
        """Read the missing arguments; read them again after an outage."""
        for number, told in self._unread.values():
            key = layout.argv(self._around.settings.machine, told.id, told.argv_digest)
            work = partial(_arguments, self._around.store, key)
            then = partial(self._was_read, number, told, now)
            self._around.errands.send(f"argv {told.id}", work, then, now=now)

    def _was_read(self, number: int, told: Exec, now: float, argv: tuple[str, ...]) -> None:
        del self._unread[told.id]
        problem = "" if argv else "its arguments are not in the bucket"
        self._run(number, replace(told, argv=argv, argv_digest=""), now, problem)


def _arguments(store: ObjectStore, key: str) -> tuple[str, ...]:
    """Return the arguments at `key`; none if there is no such object, or it is damaged."""
    try:
        found = store.read(key, limit_bytes=REQUEST_BYTES)
    except (NotFoundError, OversizeError):
        return ()
    assert found is not None
    try:
        return decode(LongCommand, found.data, key=key).argv
    except RecordError:
        return ()
