"""Behind a bad network, no adapter claims what it has not seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from bastion.errors import ConflictError, NotFoundError, StoreError
from bastion.store.gcs import GcsStore
from bastion.store.port import Object, ObjectStore, Version
from bastion.store.s3 import S3Store
from tests.servers.fault_proxy import Fault, FaultProxy
from tests.servers.gcs import GcsServer
from tests.servers.s3 import credentials, make_bucket, moto_server

KEYS = ("a", "b/c", "b/d")
ALL: list[Fault] = [fault for fault in Fault if fault is not Fault.HANG]
SILENT: dict[str, list[Fault]] = {
    "gcs": ALL,
    # Moto accepts half of a body as a whole one, where S3 counts the bytes.
    "s3": [fault for fault in ALL if fault is not Fault.CUT_REQUEST],
}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One store, reached directly and through the bad network."""

    truth: ObjectStore
    store: ObjectStore


Open = Callable[[Callable[[], Fault]], Iterator[Line]]


@contextmanager
def gcs_line(faults: Callable[[], Fault], deadline_s: float = 60.0) -> Iterator[Line]:
    """Provide the GCS test server and the proxy."""
    with GcsServer("bucket") as server, FaultProxy(server.port, faults) as proxy:
        yield Line(
            truth=GcsStore("bucket", "root", credentials=None, endpoint=server.url),
            store=GcsStore(
                "bucket", "root", credentials=None, endpoint=proxy.url, deadline_s=deadline_s
            ),
        )


@contextmanager
def s3_line(faults: Callable[[], Fault], deadline_s: float = 60.0) -> Iterator[Line]:
    """Provide moto and the proxy."""
    with moto_server() as url, credentials(), FaultProxy(urlsplit(url).port or 0, faults) as proxy:
        make_bucket("bucket")
        yield Line(
            truth=S3Store("bucket", "root", endpoint_url=url),
            store=S3Store("bucket", "root", endpoint_url=proxy.url, deadline_s=deadline_s),
        )


LINES = {"gcs": gcs_line, "s3": s3_line}


def state(line: Line, key: str) -> Object | None:
    """Return the real contents."""
    try:
        return line.truth.read(key)
    except NotFoundError:
        return None


def write_once(line: Line, key: str, data: bytes, stale: bool) -> str:
    """Create or swap, and compare the claim with the truth."""
    before = state(line, key)
    version = Version("1") if stale or before is None else before.version
    creating = before is None or stale
    try:
        if creating:
            written = line.store.create(key, data)
        else:
            written = line.store.swap(key, data, if_version=version)
    except ConflictError:
        after = state(line, key)
        assert after is not None
        # A conflict is never invented: the name already existed, or this very write created it.
        assert (creating and before is not None) or after.data == data
        return "conflict"
    except StoreError:
        after = state(line, key)
        assert after == before or (after is not None and after.data == data)
        return "doubt"
    after = state(line, key)
    assert after is not None
    assert (after.data, after.version) == (data, written.version)
    assert not creating or before is None
    return "done"


def read_once(line: Line, key: str, changed: bool) -> str:
    """Read, conditionally or not, and compare the answer with the truth."""
    truth = state(line, key)
    unless = None if truth is None or changed else truth.version
    try:
        found = line.store.read(key, unless=unless)
    except NotFoundError:
        assert truth is None
        return "absent"
    except StoreError:
        return "doubt"
    assert truth is not None
    assert found == (None if unless else truth)
    return "done"


def delete_once(line: Line, key: str) -> str:
    """Delete, and compare the claim with the truth."""
    before = state(line, key)
    try:
        line.store.delete(key)
    except StoreError:
        assert state(line, key) in (before, None)
        return "doubt"
    assert state(line, key) is None
    return "done"


def list_once(line: Line) -> str:
    """List, and compare the answer with the truth."""
    try:
        found = line.store.list("")
    except StoreError:
        return "doubt"
    assert found == line.truth.list("")
    return "done"


def stand(line: Line, dice: random.Random, rounds: int) -> set[str]:
    """Run many random operations; return the kinds of outcome that were seen."""
    seen = set()
    for n in range(rounds):
        key = dice.choice(KEYS)
        kind = dice.choice(["write", "write", "read", "delete", "list"])
        chance = dice.random() < 0.3
        match kind:
            case "write":
                outcome = write_once(line, key, b"%d" % n * 200, chance)
            case "read":
                outcome = read_once(line, key, chance)
            case "delete":
                outcome = delete_once(line, key)
            case _:
                outcome = list_once(line)
        seen.add(f"{kind} {outcome}")
    return seen


@pytest.mark.parametrize(("name", "rounds"), [("gcs", 150), ("s3", 60)])
def test_no_adapter_claims_what_it_has_not_seen(name: str, rounds: int) -> None:
    """Through losses, cuts and repetitions, success, conflict and absence are all true."""
    dice = random.Random(1)
    with LINES[name](lambda: dice.choice([Fault.NONE, *SILENT[name]])) as line:
        seen = stand(line, dice, rounds)
    assert {"write done", "write doubt", "write conflict", "read done", "read doubt"} <= seen


@pytest.mark.prove
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("seed", range(10))
def test_many_seeds(name: str, seed: int) -> None:
    """The same holds for many schedules."""
    dice = random.Random(seed)
    with LINES[name](lambda: dice.choice([Fault.NONE, *SILENT[name]])) as line:
        stand(line, dice, 200)


@pytest.mark.parametrize("name", LINES)
def test_an_operation_on_a_hanging_server_ends(name: str) -> None:
    """Every operation ends in doubt when its time is up."""
    with LINES[name](lambda: Fault.HANG, deadline_s=0.1) as line:
        for operation in (
            lambda: line.store.create("a", b"1"),
            lambda: line.store.swap("a", b"1", if_version=Version("1")),
            lambda: line.store.read("a"),
            lambda: line.store.delete("a"),
            lambda: line.store.list(""),
        ):
            with pytest.raises(StoreError):
                operation()


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.DROP_ANSWER, Fault.GATEWAY])
def test_each_request_is_sent_once(name: str, fault: Fault) -> None:
    """No client retries on its own: its caller decides that, after reading back."""
    sent: list[Fault] = []

    def count() -> Fault:
        sent.append(fault)
        return fault

    with LINES[name](count) as line:
        for operation in (
            lambda: line.store.create("a", b"1"),
            lambda: line.store.read("a"),
            lambda: line.store.delete("a"),
            lambda: line.store.list(""),
        ):
            sent.clear()
            with pytest.raises(StoreError):
                operation()
            assert len(sent) == 1
