"""Fetching the code of a job: temporary problems cost no attempt."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from bastion.agent.machine.machine_fault import is_machine_fault
from bastion.agent.settings import AgentSettings
from bastion.agent.setup import code_setup as set_up
from bastion.clock import VirtualClock
from bastion.errors import NotFoundError
from bastion.job import End
from bastion.lifecycle.outcome import failure_text
from bastion.records.code.bundles import Bundles
from bastion.spec import GitRef
from bastion.spec.code import BundleRef
from bastion.store.memory import MemoryStore
from bundler.bundle.upload import bundle
from bundler.code import LocalDir
from bundler.copies.kept import evict
from bundler.errors import BundleError, UnreachableError
from tests.rigs import trees

REF = GitRef(url="https://example.org/x.git", commit="1" * 40)


@pytest.mark.parametrize(
    ("answers", "tries", "slept_s"),
    [
        ([UnreachableError("away"), None], 2, 2.0),
        ([UnreachableError("away")] * 3, 3, 10.0),
        ([BundleError("refused our key")], 1, 0.0),
    ],
)
def test_an_unreachable_repository_is_retried(
    answers: list[BundleError | None],
    tries: int,
    slept_s: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It fails after two retries; an error that no retry can fix is raised immediately."""
    asked: list[BundleError | None] = []
    told: list[str] = []

    def fetch_commit(*_: object, **__: object) -> Path:
        asked.append(answers[len(asked)])
        if asked[-1] is not None:
            raise asked[-1]
        return tmp_path

    monkeypatch.setattr("bundler.repository.clone.fetch_commit", fetch_commit)
    clock = VirtualClock()
    began = clock.monotonic()
    try:
        settings = AgentSettings(machine="m")
        assert set_up._clone(REF, settings, tmp_path, told.append, clock) == tmp_path
    except BundleError as error:
        assert error is answers[-1]
    assert (len(asked), clock.monotonic() - began) == (tries, slept_s)
    assert len(told) == tries, "a set-up that is not needed any more ends where it tells"
    assert asked[-1] is answers[-1]


@pytest.fixture
def store() -> MemoryStore:
    """Return an empty bucket."""
    return MemoryStore(lambda: 0.0)


@pytest.fixture
def code(store: MemoryStore, tmp_path: Path) -> BundleRef:
    """Return a bundle in the bucket."""
    trees.write(tmp_path / "tree", {"pyproject.toml": "", "train.py": "print(1)"})
    caches = tmp_path / "caches"
    return bundle(LocalDir(), Bundles(store), start=tmp_path / "tree", caches=caches).ref


def test_code_is_not_deleted_while_it_is_copied(
    store: MemoryStore, code: BundleRef, tmp_path: Path
) -> None:
    """Cleaning the full cache leaves the tree that a host is copying."""

    def report(step: str) -> None:
        if step.startswith("copying"):
            evict(tmp_path / "cache", limit_bytes=0)

    settings = AgentSettings(machine="m")
    set_up.bring(code, store, settings, tmp_path / "cache", tmp_path / "job", report)
    assert (tmp_path / "job" / "train.py").read_text() == "print(1)"
    evict(tmp_path / "cache", limit_bytes=0)
    assert not (tmp_path / "cache" / code.digest).exists()


@pytest.mark.parametrize("harm", ["gone", "cut"])
def test_damaged_code_is_sent_anew_as_its_error_says(
    store: MemoryStore, code: BundleRef, tmp_path: Path, harm: str
) -> None:
    """Objects are never replaced: the code fails until the object in the error is deleted."""
    (entry,) = store.list("bundles/packs/")
    found = store.read(entry.key)
    assert found is not None
    store.delete(entry.key)
    if harm == "cut":
        store.create(entry.key, found.data[:-9])
    bring = partial(set_up.bring, code, store, AgentSettings(machine="m"), tmp_path / "cache")
    with pytest.raises(set_up.SetUpError, match=entry.key.rpartition("/")[2]) as told:
        bring(tmp_path / "job", lambda _: None)
    manifest = f"bundles/manifests/{code.digest}"
    assert f"delete {manifest} and the damaged objects" in told.value.message
    shown = failure_text(End(kind="setup_failed", detail=told.value.message))
    assert shown == f"set-up failed: {told.value.message}"
    for key in (manifest, entry.key):
        with suppress(NotFoundError):
            store.delete(key)
    sent = bundle(LocalDir(), Bundles(store), start=tmp_path / "tree", caches=tmp_path / "caches")
    assert sent.ref == code
    bring(tmp_path / "again", lambda _: None)
    assert (tmp_path / "again" / "train.py").read_text() == "print(1)"


def test_code_that_a_full_disk_cannot_keep_is_no_fault_of_the_job(
    store: MemoryStore, code: BundleRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that is deleted before it can be copied is fetched again, a few times."""
    fetched: list[Path] = []

    def fetch(*_: object, **__: object) -> Path:
        fetched.append(tmp_path / "cache" / code.digest / "tree")
        return fetched[-1]

    (tmp_path / "cache").mkdir()
    monkeypatch.setattr("bundler.bundle.fetch.fetch", fetch)
    settings, job = AgentSettings(machine="m"), tmp_path / "job"
    with pytest.raises(set_up.SetUpError, match="left the cache") as caught:
        set_up.bring(code, store, settings, tmp_path / "cache", job, lambda _: None)
    assert is_machine_fault(caught.value)
    assert len(fetched) == 3
