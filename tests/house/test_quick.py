"""`make quick` is for frequent use: none of its tests starts a server or a program."""

from __future__ import annotations

import subprocess

import pytest

from tests.rigs.real import is_real, starts_programs


def _helper() -> object:
    return subprocess


class _Starter:
    def start(self) -> object:
        return _helper()


def _through_others() -> object:
    return [_Starter().start() for _ in range(2)]


def _plain() -> int:
    return len("no program")


def test_what_starts_a_program_through_others_is_found() -> None:
    """A function is followed into the functions and classes of the tests that it names."""
    assert starts_programs(_through_others)
    assert not starts_programs(_plain)


def test_only_what_starts_programs_is_left_out(request: pytest.FixtureRequest) -> None:
    """This test names helpers that start programs, so it is marked and left out itself."""
    assert _helper() is subprocess
    assert is_real(request.node)
    assert request.node.get_closest_marker("real") is not None
