"""Which Python environments a launch can request."""

from __future__ import annotations

import pytest

from bastion.records.coding.codec import decode, encode
from bastion.records.requests.launch_request import LaunchRequest
from bastion.spec import BundleRef, ImageRef, Job, Launch, Process, PythonEnv, python_problems
from bundler.code import LocalDir
from tests.bastion.spec.problems import problems


def test_an_environment_travels_whole() -> None:
    """A stored launch returns it as it was written."""
    env = PythonEnv(lock="train/uv.lock", python="3.12")
    job = Job(processes=(Process(["a"]),))
    sent = LaunchRequest(launch=Launch(name="x", jobs=[job], python=env))
    assert decode(LaunchRequest, encode(sent), key="k") == sent
    assert env.is_uv
    assert not PythonEnv("uv.lock.txt").is_uv


@pytest.mark.parametrize("lock", ["", "/etc/x", "../x", "a/../x", "a//b", "a/", ".", "a\0b"])
def test_a_lock_file_is_in_the_code(lock: str) -> None:
    """A path that could lead out of the code is refused."""
    assert problems(PythonEnv, lock=lock) == (
        f"lock: {lock!r} is not a path in the code, as requirements.txt",
    )


@pytest.mark.parametrize("python", ["2.7", "3", "python3.11", "3.11; x", "latest"])
def test_a_version_is_one_of_python_3(python: str) -> None:
    """A version is two or three numbers, the first of them 3."""
    assert problems(PythonEnv, python=python) == (
        f"python: {python!r} is not a version of Python, as 3.11",
    )


def test_an_environment_needs_code_to_read_its_lock_from() -> None:
    """A launch without code, or with an image, is refused before it is sent."""
    env = PythonEnv()
    assert not python_problems(env, LocalDir())
    assert not python_problems(env, BundleRef(digest="0" * 64))
    assert not python_problems(None, None)
    assert python_problems(env, None) == [
        "python: requirements.txt is read from the code, and no code is sent; send it with --code=."
    ]
    assert "an image brings its own" in python_problems(env, ImageRef(ref="a"))[0]
