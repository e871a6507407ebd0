"""How a host ends whose processes could not be started, by what kept them from it: pure."""

from __future__ import annotations

from bastion.agent.keeper.port import MachineFaultError
from bastion.agent.machine.machine_fault import fault_text, is_machine_fault
from bastion.agent.setup.python_env import BuildError
from bastion.errors import BastionError
from bastion.job import End


def end_without_start(error: BaseException) -> End:
    """
    The end of a host that `error` kept from starting.

    A fault of the machine is no failure of the job, which can start elsewhere: the host is lost.
    Anything else would be the same on every machine.
    """
    if isinstance(error, MachineFaultError):
        return _lost(error.message)
    if is_machine_fault(error):
        return _lost(_root_text(error))
    if isinstance(error, BuildError):
        return End(kind="setup_failed", detail=str(error), sizes=(len(error.printed),))
    if isinstance(error, BastionError):
        return End(kind="setup_failed", detail=error.in_a_line)
    return End(kind="setup_failed", detail=f"internal error: {error!r} of the agent")


def _lost(why: str) -> End:
    return End(kind="lost", by_machine=True, detail=f"its machine could not start it: {why}")


def _root_text(error: BaseException) -> str:
    """What was wrong on the machine, after what could not be done for it."""
    what = error.message if isinstance(error, BastionError) else ""
    while error.__cause__ is not None:
        error = error.__cause__
    text = fault_text(error)
    return what if text in what else f"{what}: {text}" if what else text
