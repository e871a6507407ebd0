"""The garbage collector waits, and goes on as before."""

from __future__ import annotations

import gc

import pytest

from bastion.service.decide.python_gc import paused


def test_it_is_off_inside_and_on_again_after_an_error() -> None:
    """Whatever happens inside."""
    with pytest.raises(ZeroDivisionError), paused():
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()


def test_code_that_had_turned_it_off_finds_it_off() -> None:
    """Also where one stands inside another."""
    with paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
