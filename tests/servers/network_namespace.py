"""A network namespace with one cable to this machine that can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A namespace with its own network; files and processes are those of this machine."""

    name: str
    near: str
    """The address of this machine, as seen from there."""
    far: str
    """The address there."""

    @property
    def inside(self) -> tuple[str, ...]:
        """Return the beginning of a command that runs there."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """Cut the cable: packets of both ends are lost, and neither end is told."""
        _ip("-n", self.name, "link", "set", "far", "down")

    def mend(self) -> None:
        """Connect the cable again."""
        _ip("-n", self.name, "link", "set", "far", "up")


@contextmanager
def network_namespace() -> Iterator[Namespace]:
    """Create a namespace and remove it in the end; skip the test if that is not permitted."""
    number = os.getpid() % 16384
    net = f"10.213.{number >> 6}.{(number & 63) << 2}".rpartition(".")
    first = int(net[2])
    made = Namespace(
        name=f"bastion{number}", near=f"{net[0]}.{first + 1}", far=f"{net[0]}.{first + 2}"
    )
    _skip_unless_permitted(made.name)
    near = f"bn{number}"
    try:
        _ip("link", "add", near, "type", "veth", "peer", "name", "far", "netns", made.name)
        _ip("addr", "add", f"{made.near}/30", "dev", near)
        _ip("link", "set", near, "up")
        _ip("-n", made.name, "addr", "add", f"{made.far}/30", "dev", "far")
        for name in ("lo", "far"):
            _ip("-n", made.name, "link", "set", name, "up")
        yield made
    finally:
        _ip("netns", "del", made.name)


def _skip_unless_permitted(name: str) -> None:
    if shutil.which("ip") is None:
        pytest.skip("needs ip (Debian: iproute2)")
    if os.geteuid():
        pytest.skip("needs root, to make a network namespace")
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"no network namespace may be made here: {tried.stderr.strip()}")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
