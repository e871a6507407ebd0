"""The keeper's socket under bytes that no agent should send."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from bastion.agent.keeper.port import KeeperError
from tests.rigs.keepers import EXITS, SLEEPS, RealWorld, attempt, shell

GOOD = {
    "id": 1,
    "do": "start",
    "key": "a",
    "processes": [{"argv": ["true"], "env": {"PATH": "/bin:/usr/bin"}, "cwd": "/tmp"}],
    "grace_s": 1.0,
    "max_runtime_s": None,
    "memory_limit_bytes": None,
    "notice_path": "",
    "spool_limit_bytes": 1000,
    "umask": 18,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealWorld]:
    """One real keeper for all tests here: none may harm it."""
    made = RealWorld(tmp_path_factory.mktemp("home"))
    yield made
    made.close()


@pytest.fixture
def raw(world: RealWorld) -> Iterator[socket.socket]:
    """Open a bare connection."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10.0)
        connection.connect(str(world.home / "keeper" / "socket"))
        yield connection


def answer(connection: socket.socket, line: bytes) -> dict[str, Any]:
    connection.sendall(line + b"\n")
    said = b""
    while not said.endswith(b"\n"):
        data = connection.recv(1 << 16)
        assert data, "the keeper hung up"
        said += data
    found: dict[str, Any] = json.loads(said)
    return found


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"id":1}',
        b'{"id":1,"do":"dance"}',
        b'{"id":1,"do":"start"}',
        b'{"id":1,"do":"stop","key":7}',
        b'{"id":1,"do":"forget","key":""}',
        b'{"id":1,"do":"permit","valid_for_s":"x","sent_at":0}',
        b"[" * 100_000,
    ],
)
def test_nonsense_is_answered(world: RealWorld, raw: socket.socket, line: bytes) -> None:
    """A line that is no request gets an error, and the connection stays open."""
    assert answer(raw, line)["error"] == "refused"
    assert answer(raw, b'{"id":2,"do":"ping"}')["ok"]["life"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"key": "x" * 300},
        {"key": "a\0b"},
        {"processes": []},
        {"processes": [3]},
        {"processes": [{"argv": [], "env": {}, "cwd": "/"}]},
        {"processes": [{"argv": ["x"], "env": {"A=B": "c"}, "cwd": "/"}]},
        {"processes": [{"argv": ["x"], "env": {"A": 1}, "cwd": "/"}]},
        {"processes": [{"argv": ["x\0"], "env": {}, "cwd": "/"}]},
        {"processes": [{"argv": ["\ud800"], "env": {}, "cwd": "/"}]},
        {"processes": [{"argv": ["x"], "env": {}}]},
        {"grace_s": -1},
        {"grace_s": float("nan")},
        {"grace_s": True},
        {"max_runtime_s": "8h"},
        {"memory_limit_bytes": 1.5},
        {"spool_limit_bytes": None},
        {"umask": -1},
        {"notice_path": 3},
    ],
)
def test_a_malformed_start_starts_nothing(
    world: RealWorld, raw: socket.socket, change: dict[str, object]
) -> None:
    """Each wrong field is refused by name or value, and nothing is written to the journal."""
    said = answer(raw, json.dumps({**GOOD, **change}).encode())
    assert said["error"] == "refused"
    assert "\n" not in said["message"]
    assert answer(raw, b'{"id":2,"do":"list"}')["ok"]["attempts"] == []


def test_a_request_in_pieces_is_one(world: RealWorld, raw: socket.socket) -> None:
    """A request may arrive byte by byte, and several may arrive together."""
    for byte in b'{"id":1,"do":"ping"}':
        raw.sendall(bytes((byte,)))
    assert answer(raw, b"")["id"] == 1
    raw.sendall(b'{"id":5,"do":"ping"}\n' * 3)
    said = b""
    while said.count(b"\n") < 3:
        said += raw.recv(1 << 16)
    assert [json.loads(line)["id"] for line in said.splitlines()] == [5, 5, 5]


def test_a_connection_that_never_reads_blocks_no_other(world: RealWorld) -> None:
    """A watcher that reads nothing does not delay other connections."""
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.connect(str(world.home / "keeper" / "socket"))
        deaf.sendall(b'{"id":1,"do":"watch"}\n' + b'{"id":2,"do":"list"}\n' * 5000)
        world.keeper.start(attempt("deaf", EXITS))
        world.ended("deaf")
    world.keeper.forget("deaf")


def test_a_line_without_end_is_cut_off(world: RealWorld) -> None:
    """A connection that sends more than the limit of a request is closed."""
    with socket.socket(socket.AF_UNIX) as endless:
        endless.connect(str(world.home / "keeper" / "socket"))
        with pytest.raises(OSError, match=r"pipe|reset"):
            for _ in range(100):
                endless.sendall(b"x" * (1 << 20))


def test_a_start_that_is_too_long_costs_no_connection(world: RealWorld) -> None:
    """It is refused before it is sent, with its size; others of the same turn are started."""
    long = attempt("long", *[shell(EXITS, BIG="x" * 120_000)] * 150)
    refused, started = world.keeper.start_all([long, attempt("beside", EXITS)])
    assert isinstance(refused, KeeperError)
    assert "at most 16,777,216" in refused.message
    assert started is None
    world.ended("beside")
    world.keeper.forget("beside")


def test_a_start_without_a_reader_is_a_start(world: RealWorld) -> None:
    """A start whose connection closes before the answer still counts."""
    with socket.socket(socket.AF_UNIX) as brief:
        brief.connect(str(world.home / "keeper" / "socket"))
        brief.sendall(json.dumps({**GOOD, "key": "brief"}).encode() + b"\n")
    world.ended("brief")
    world.keeper.forget("brief")


def test_starts_of_one_turn_are_told_apart(world: RealWorld, raw: socket.socket) -> None:
    """The same key twice in one packet is started once."""
    start = json.dumps({**GOOD, "key": "twice"}).encode() + b"\n"
    raw.sendall(start + start)
    said = b""
    while said.count(b"\n") < 2:
        said += raw.recv(1 << 16)
    kinds = sorted(json.loads(line).get("error", "ok") for line in said.splitlines())
    assert kinds == ["conflict", "ok"]
    world.ended("twice")
    world.keeper.forget("twice")


def test_a_stop_in_the_same_packet_as_the_start_works(world: RealWorld, raw: socket.socket) -> None:
    """A stop finds what was started just before it."""
    process = {"argv": ["sh", "-c", SLEEPS], "env": {"PATH": "/bin:/usr/bin"}, "cwd": "/tmp"}
    start = {**GOOD, "key": "short", "processes": [process]}
    stop = {"id": 2, "do": "stop", "key": "short", "reason": "x", "by": "y", "grace_s": 5}
    raw.sendall(b"".join(json.dumps(said).encode() + b"\n" for said in (start, stop)))
    assert len(world.ended("short").notices) == 1
    world.keeper.forget("short")
