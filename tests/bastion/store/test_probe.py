"""The start-up probe detects each precondition that a store ignores."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.clock import VirtualClock
from bastion.errors import ConflictError, NotFoundError, StoreError, StoreRefusedError
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.open import open_store
from bastion.store.port import Version, Written
from bastion.store.probe import probe
from tests.servers.ceph import ceph_server, needs_ceph
from tests.servers.s3 import credentials


class Overwriting(MemoryStore):
    """Treats `create` as `put`."""

    def create(self, key: str, data: bytes) -> Written:
        """Write, whatever is there."""
        self.delete(key)
        return super().create(key, data)


class Careless(MemoryStore):
    """Ignores the version of a swap."""

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """Write over anything."""
        found = self.read(key)
        assert found is not None
        return super().swap(key, data, if_version=found.version)


class Reviving(MemoryStore):
    """Treats a swap of a deleted object as a create."""

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """Write, even if nothing exists."""
        try:
            self.read(key)
        except NotFoundError:
            return self.create(key, data)
        return super().swap(key, data, if_version=if_version)


class Unmatched(MemoryStore):
    """Never finds that a version matches, as Ceph's gateway with quoted ETags."""

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """Refuse."""
        raise ConflictError("no match")


class Occupied(MemoryStore):
    """Treats every name as taken."""

    def create(self, key: str, data: bytes) -> Written:
        """Refuse."""
        raise ConflictError("taken")


class Twice(MemoryStore):
    """Repeats every request and returns the second answer."""

    def create(self, key: str, data: bytes) -> Written:
        """Write, and be refused because of that write."""
        super().create(key, data)
        return super().create(key, data)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """Write, and be refused because of that write."""
        super().swap(key, data, if_version=if_version)
        return super().swap(key, data, if_version=if_version)


def test_a_request_that_arrives_twice_is_no_fault_of_the_store() -> None:
    """A conflict with our own write, detected by reading back, refuses no store."""
    store = Twice(lambda: 1.0)
    probe(store)
    assert store.list("") == ()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Overwriting, "a second create of one name succeeded"),
        (Careless, "a swap from a stale version succeeded"),
        (Reviving, "a swap of a deleted object succeeded"),
        (Unmatched, "a swap from the current version failed"),
        (Occupied, "a create of a new name failed"),
    ],
)
def test_an_ignored_precondition_is_named(kind: type[MemoryStore], said: str) -> None:
    """Such a store is refused with what was seen; nothing is left."""
    store = kind(lambda: 1.0)
    with pytest.raises(StoreRefusedError, match=said):
        probe(store)
    assert store.list("") == ()


class OneASecond(MemoryStore):
    """Accepts one write per second of one object, like Google, on its own clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.wrote: dict[str, float] = {}
        super().__init__(self.clock.wall)

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        written = super().create(key, data)  # a conflict writes nothing
        self._look(key)
        return written

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        written = super().swap(key, data, if_version=if_version)
        self._look(key)
        return written

    def delete(self, key: str) -> None:
        """See the port."""
        self._look(key)
        super().delete(key)

    def _look(self, key: str) -> None:
        now = self.clock.monotonic()
        if now - self.wrote.get(key, float("-inf")) < 1.0:
            raise StoreError(f"{key}: 429", retry_after_s=1.1)
        self.wrote[key] = now


def test_a_probe_keeps_to_the_pace_of_its_store() -> None:
    """If one object accepts one write per second, the probe waits between its writes."""
    store = OneASecond()
    began = store.clock.monotonic()
    probe(store, pause=lambda: store.clock.advance(1.1))
    assert store.list("") == ()
    assert store.clock.monotonic() - began < 10


def test_a_failed_clean_up_hides_no_failure() -> None:
    """The finding is reported even if its object cannot be deleted afterwards."""

    def fault(operation: str, key: str) -> Fault | None:
        return Fault.BEFORE if operation == "delete" else None

    with pytest.raises(StoreRefusedError, match="a swap from a stale version succeeded"):
        probe(FaultyStore(Careless(lambda: 1.0), fault))


def test_a_store_out_of_reach_is_not_refused() -> None:
    """It is reported as a fault: the store may be correct and will be probed again."""
    store = FaultyStore(MemoryStore(lambda: 1.0), lambda operation, key: Fault.BEFORE)
    with pytest.raises(StoreError) as caught:
        probe(store)
    assert not isinstance(caught.value, StoreRefusedError)


def test_a_store_that_compares_bare_etags_is_told_with_the_setting() -> None:
    """If no version ever matches, the solution for Ceph's gateway is named."""
    with pytest.raises(StoreRefusedError) as caught:
        probe(Unmatched(lambda: 1.0))
    assert "etags=bare" in caught.value.hint


@needs_ceph[0]
@needs_ceph[1]
def test_ceph_is_refused_as_it_comes_and_sound_with_bare_etags(tmp_path: Path) -> None:
    """Its gateway accepts correct creates, but no swap; the setting fixes that."""
    with ceph_server(tmp_path) as url, credentials():
        with pytest.raises(StoreRefusedError, match="a swap from the current version failed"):
            probe(open_store(f"s3://bucket/root?endpoint_url={url}"))
        probe(open_store(f"s3://bucket/root?endpoint_url={url}&etags=bare"))
