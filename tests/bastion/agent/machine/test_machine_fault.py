"""Which errors are a fault of the machine."""

from __future__ import annotations

import errno

import pytest

from bastion.agent.keeper.attempt.process import spawn_fault
from bastion.agent.machine.machine_fault import fault_text, is_machine_fault
from bastion.errors import BastionError


@pytest.mark.parametrize(
    "number",
    [
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
    ],
)
def test_what_a_machine_lacks_is_its_fault(number: int) -> None:
    """A lack of disk space, descriptors or memory is a fault of the machine."""
    assert is_machine_fault(OSError(number, "text"))


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EISDIR, errno.E2BIG])
def test_what_a_request_asks_wrongly_is_not(number: int) -> None:
    """A missing file or permission is never a fault of the machine."""
    assert not is_machine_fault(OSError(number, "text"))
    assert not spawn_fault(OSError(number, "text"))
    assert not is_machine_fault(None)


def test_memory_that_runs_out_is_its_fault() -> None:
    """A MemoryError names what was lacking."""
    assert is_machine_fault(MemoryError())
    assert fault_text(MemoryError()) == "Cannot allocate memory"


def test_a_cause_counts() -> None:
    """An error of ours that was caused by a fault of the machine is one."""
    error = BastionError("its folders cannot be written")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device", "/secret/path")
    assert is_machine_fault(error)
    assert fault_text(error.__cause__) == "No space left on device"


def test_no_room_for_a_process_is_a_fault_of_starting_alone() -> None:
    """EAGAIN means that the machine has no room for a process, but only when one is started."""
    error = OSError(errno.EAGAIN, "text")
    assert spawn_fault(error) == "Resource temporarily unavailable"
    assert not is_machine_fault(error)
