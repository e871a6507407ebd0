"""Keeper lives: connect to a running keeper, or win the next number for a new one."""

from __future__ import annotations

from collections.abc import Callable

from bastion.agent.host.context import KeeperAndSpool
from bastion.agent.keeper.port import KeeperGoneError
from bastion.errors import NotFoundError, OversizeError, RecordError
from bastion.records.coding.limits import REGISTER_BYTES
from bastion.records.keys import layout
from bastion.records.register import Won, win
from bastion.records.reports.registers import LifeRegister
from bastion.store.port import ObjectStore


def begin_life(
    store: ObjectStore,
    machine: str,
    *,
    boot_id: str,
    nonce: Callable[[], str],
    connect: Callable[[], KeeperAndSpool],
    spawn: Callable[[int], KeeperAndSpool],
) -> KeeperAndSpool:
    """
    Return the keeper of `machine`: the running one, or a new one with the next number.

    Args:
        store: The bucket.
        machine: Its name.
        boot_id: The id of the running kernel's boot.
        nonce: Returns a fresh `write_id`.
        connect: Connects to the running keeper; `KeeperGoneError` if there is none.
        spawn: Starts the keeper of a life; what older lives left is dead when it returns.

    Raises:
        StoreError: The store is unreachable or the result is in doubt; try again. A number may then
            stay without a keeper, which is harmless.
        KeeperError: No keeper can be started.
    """
    try:
        return connect()
    except KeeperGoneError:
        pass
    number = _newest(store, machine) + 1
    while not _is_won(store, layout.life(machine, number), nonce(), boot_id):
        number += 1
    return spawn(number)


def _is_won(store: ObjectStore, key: str, write_id: str, boot_id: str) -> bool:
    try:
        return isinstance(win(store, key, LifeRegister(write_id=write_id, boot_id=boot_id)), Won)
    except RecordError:
        return False  # an unreadable register belongs to no life


def _newest(store: ObjectStore, machine: str) -> int:
    number, last = 0, ""
    while entries := store.list(layout.lives(machine), start_after=last):
        last = entries[-1].key
        lives = (layout.parse_life(entry.key) for entry in entries)
        number = max([number, *(life[1] for life in lives if life is not None)])
    return number


def is_there(store: ObjectStore, key: str) -> bool:
    """
    Whether the life with this key was started, even if its register is unreadable.

    Raises:
        StoreError: The store is unreachable; try again.
    """
    try:
        store.read(key, limit_bytes=REGISTER_BYTES)
    except NotFoundError:
        return False
    except OversizeError:
        return True
    return True
