"""Tests that start servers or programs: found by what they call, not by how long they take."""

from __future__ import annotations

import inspect
import multiprocessing
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

TESTS = Path(__file__).parent.parent

FOLDERS = ("end_to_end", "contracts", "docs", "bundler", "bastion/agent", "bastion/provider")
"""Folders where every test does, even if only through the programs that it tests."""

_STARTERS = ("subprocess", "multiprocessing")


def is_real(item: pytest.Item) -> bool:
    """Whether a test, a fixture of it, or anything they call in the tests starts one."""
    inside = item.path.relative_to(TESTS).as_posix()
    if inside.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
        return True
    if not isinstance(item, pytest.Function):
        return False
    info = item._fixtureinfo.name2fixturedefs
    fixtures = [each.func for found in info.values() for each in found]
    return any(starts_programs(each) for each in (item.function, *fixtures))


def starts_programs(thing: object, seen: set[int] | None = None) -> bool:
    """Whether `thing`, or a function or class of the tests that it names, uses `subprocess`."""
    seen = set() if seen is None else seen
    thing = inspect.unwrap(thing) if callable(thing) else thing
    if id(thing) in seen:
        return False
    seen.add(id(thing))
    if isinstance(thing, ModuleType):
        return thing in (subprocess, multiprocessing) or thing.__name__.startswith("tests.servers")
    module = str(getattr(thing, "__module__", ""))
    if module.startswith(("tests.servers", *_STARTERS)):
        return True
    if isinstance(thing, type) and module.startswith("tests."):
        return any(starts_programs(each, seen) for each in vars(thing).values())
    if not isinstance(thing, FunctionType) or not module.startswith("tests."):
        return False
    found = (thing.__globals__.get(name) for name in _names(thing.__code__))
    return any(starts_programs(each, seen) for each in found)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
