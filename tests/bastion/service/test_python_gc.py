"""The garbage collector waits, and then continues as before."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from bastion.service.python_gc import paused
from bastion.store.memory import MemoryStore
from tests.rigs.leader import Rig


def test_it_is_off_inside_and_on_again_after_an_error() -> None:
    """This holds whatever happens inside."""
    with pytest.raises(ZeroDivisionError), paused():
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()


def test_code_that_had_turned_it_off_finds_it_off() -> None:
    """This includes nested uses."""
    with paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_turn_commits_before_anything_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root is written with the collector off; between turns it runs."""
    write = MemoryStore.swap
    enabled: list[bool] = []

    def swap(store: MemoryStore, *arguments: Any, **more: Any) -> Any:
        enabled.append(gc.isenabled())
        return write(store, *arguments, **more)

    rig = Rig()
    asked = rig.launch("train")
    monkeypatch.setattr(MemoryStore, "swap", swap)
    rig.turn()
    assert rig.answer(asked)
    assert enabled and not any(enabled)
    assert gc.isenabled()
