"""The code of a job is shown, checked out and run again."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from bastion.client import Client
from bastion.client.submit.provenance import of_this_process
from bastion.errors import BastionError, NotFoundError, RecordError, SpecError
from bastion.records.keys import layout
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.requests.origin import (
    MAX_NAMES,
    MAX_TEXT_BYTES,
    Origin,
    origin_argv,
    read_origin,
)
from bastion.spec import BundleRef, Code, CodeRef, Job, Launch, Process
from bastion.store.memory import MemoryStore
from bundler.code import Image, LocalDir
from tests.rigs.git_repositories import git
from tests.rigs.scripted_bastion import ScriptedBastion, end, publish, put, world

WORDS = Origin(argv=("bastion", "launch", "--", "true"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a repository with one commit and one change since."""
    top = tmp_path / "repository"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "train.py").write_text("rate = 1\n")
    (top / ".env").write_text("TOKEN=old\n")
    git(top, "add", "-f", ".")
    git(top, "commit", "-q", "-m", "one")
    (top / "train.py").write_text("rate = 2\n")
    (top / ".env").write_text("TOKEN=hush\n")
    (top / "new.py").write_text("")
    return top


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a cache of the bundler only for the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def client_of() -> tuple[Client, MemoryStore, ScriptedBastion]:
    """Return Ada's client of a fresh bucket, which a scripted bastion serves."""
    store, clock = world()
    bastion = ScriptedBastion(store, clock)
    return Client("memory:", user="ada", store=store, clock=clock), store, bastion


def launch_of(*jobs: str, code: CodeRef | Code | None = None) -> Launch:
    """Return a launch of jobs of these names, or of one."""
    made = tuple(Job(name=name, processes=(Process(["true"]),)) for name in jobs or ("main",))
    return Launch(name="train", jobs=made, code=code)


def body_of(bastion: ScriptedBastion) -> LaunchRequest:
    """Return the launch that was absorbed last."""
    body = bastion.taken[-1][1]
    assert isinstance(body, LaunchRequest)
    return body


def test_a_launch_says_where_its_code_came_from(tree: Path) -> None:
    """Commit, difference and new files are stored; likely secrets are only named."""
    client, store, _ = client_of()
    handle = client.launch(launch_of(code=LocalDir(str(tree))), origin=WORDS)
    end(store, handle.id)
    view = client.code(handle.id)
    assert isinstance(view.code, BundleRef)
    assert view.origin is not None
    assert view.origin.argv == WORDS.argv
    found = view.origin.tree
    assert found is not None
    assert (found.commit, found.branch) == (git(tree, "rev-parse", "HEAD"), "main")
    assert "-rate = 1\n+rate = 2\n" in found.diff
    assert found.changed == (".env", "train.py")
    assert found.left_out == (".env",)
    assert found.untracked == ("new.py",)
    stored = store.read(layout.origin(body_digest(store)))
    assert stored is not None
    assert b"hush" not in stored.data


def body_digest(store: MemoryStore) -> str:
    """Return the digest of the one origin in the bucket."""
    (entry,) = store.list(layout.origin(""))
    return entry.key.rpartition("/")[2]


def test_what_the_bundle_leaves_out_is_not_told(tree: Path) -> None:
    """A tracked file in .bastionignore is in neither the bundle nor the difference."""
    (tree / "notes.txt").write_text("draft\n")
    git(tree, "add", "notes.txt")
    git(tree, "commit", "-q", "-m", "two", "notes.txt")
    (tree / "notes.txt").write_text("private\n")
    (tree / ".bastionignore").write_text("notes.txt\n")
    client, store, _ = client_of()
    handle = client.launch(launch_of(code=LocalDir(str(tree))), origin=WORDS)
    end(store, handle.id)
    origin = client.code(handle.id).origin
    assert origin is not None
    assert origin.tree is not None
    assert "private" not in origin.tree.diff
    assert "notes.txt" in origin.tree.left_out


def test_a_script_is_stored_with_its_launch(tmp_path: Path) -> None:
    """The text and command line of a launching program are read from the process."""
    script = tmp_path / "launch.py"
    script.write_text(
        "from bastion.client.submit import provenance as origins\n"
        "origin = origins.of_this_process()\n"
        "print(origin.argv[1:], origin.files[0].name, 'of_this_process' in origin.files[0].text)\n"
    )
    ran = subprocess.run(
        [sys.executable, str(script), "--lr=1"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"('{script}', '--lr=1') launch.py True\n"


def test_a_notebook_is_stored_with_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells that ran so far are kept in order; if there are too many, the last ones."""
    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    notebook._ih = ["", "lr = 0.1", "client.launch(...)\n"]  # type: ignore[attr-defined]
    (file,) = of_this_process().files
    assert (file.name, file.is_cut) == ("notebook", False)
    assert file.text == "# In [1]:\nlr = 0.1\n\n# In [2]:\nclient.launch(...)\n"
    notebook._ih[1] = "x" * MAX_TEXT_BYTES
    (file,) = of_this_process().files
    assert (file.text, file.is_cut) == ("# In [2]:\nclient.launch(...)\n", True)


def test_a_file_is_stored_with_its_launch(tmp_path: Path) -> None:
    """The TOML file of a launch is part of its origin."""
    client, store, _ = client_of()
    file = tmp_path / "spec.toml"
    file.write_text('name = "train"\n[[jobs]]\n[[jobs.processes]]\ncommand = ["true"]\n')
    handle = client.launch(file, origin=WORDS)
    end(store, handle.id)
    origin = client.code(handle.id).origin
    assert origin is not None
    assert [(each.name, each.text) for each in origin.files] == [("spec.toml", file.read_text())]


def test_launches_of_one_script_share_their_origin() -> None:
    """The same origin is stored once."""
    client, store, bastion = client_of()
    client.launch(launch_of(), origin=WORDS)
    client.launch(launch_of(), origin=WORDS)
    assert len(store.list(layout.origin(""))) == 1
    assert body_of(bastion).origin == body_digest(store)


def test_an_origin_is_bounded() -> None:
    """Long texts and command lines are cut, and a record says so."""
    from bastion.records.requests.origin import origin_file, origin_paths

    file = origin_file("a.py", "ü" * MAX_TEXT_BYTES)
    assert file.is_cut
    assert len(file.text.encode()) <= MAX_TEXT_BYTES
    assert not origin_file("a.py", "short").is_cut
    assert sum(map(len, origin_argv(("x" * MAX_TEXT_BYTES, "y", "z")))) <= MAX_TEXT_BYTES
    assert origin_argv(("a", "\udc80")) == ("a", "?")
    assert origin_paths(("a\udc80",) * 2000) == ("a?",) * MAX_NAMES


def test_an_origin_that_was_changed_is_refused() -> None:
    """Its name is the sha256 of its bytes: a mismatch is an error, not a wrong answer."""
    client, store, _ = client_of()
    handle = client.launch(launch_of(), origin=WORDS)
    end(store, handle.id)
    digest = body_digest(store)
    put(store, layout.origin(digest), b"{}")
    with pytest.raises(RecordError, match="does not hold what its name says"):
        client.code(handle.id)
    assert hashlib.sha256(b"{}").hexdigest() != digest


def test_a_deleted_origin_leaves_the_reference() -> None:
    """The code reference is still shown when the record beside it is gone."""
    client, store, _ = client_of()
    handle = client.launch(launch_of(), origin=WORDS)
    end(store, handle.id)
    store.delete(layout.origin(body_digest(store)))
    assert client.code(handle.id).origin is None
    with pytest.raises(NotFoundError):
        read_origin(store, "0" * 64)


def test_the_exact_code_is_checked_out(tree: Path, tmp_path: Path) -> None:
    """Later changes of the tree do not matter, and a folder in use is refused."""
    client, store, _ = client_of()
    handle = client.launch(launch_of(code=LocalDir(str(tree))))
    end(store, handle.id)
    (tree / "train.py").write_text("rate = 3\n")
    folder = client.checkout(handle.id, tmp_path / "out" / "code")
    assert (folder / "train.py").read_text() == "rate = 2\n"
    assert [each.name for each in folder.parent.iterdir()] == ["code"]
    with pytest.raises(BastionError, match="exists and is not an empty folder"):
        client.checkout(handle.id, folder)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (None, "was submitted without code"),
        (Image("127.0.0.1:1/a:1"), "runs the image 127.0.0.1:1/a:1"),
    ],
)
def test_code_that_is_no_folder_is_told(code: Code | None, problem: str, tmp_path: Path) -> None:
    """A launch without code, or of an image, has nothing to check out."""
    client, store, _ = client_of()
    handle = client.launch(launch_of(code=code))
    end(store, handle.id)
    with pytest.raises(SpecError, match=problem):
        client.checkout(handle.id, tmp_path / "code")


def test_a_rerun_has_the_same_spec_code_and_origin(tree: Path) -> None:
    """A finished job is submitted again unchanged, whatever the tree has become."""
    client, store, bastion = client_of()
    first = client.launch(launch_of(code=LocalDir(str(tree))), origin=WORDS)
    before = body_of(bastion)
    end(store, first.id)
    (tree / "train.py").write_text("rate = 3\n")
    again = client.rerun(first.id)
    assert again.id != first.id
    assert body_of(bastion) == replace(before, again_of=first.id)
    end(store, again.id)
    assert client.code(again.id).again_of == first.id


def test_a_rerun_may_change_priority_and_variables() -> None:
    """New values replace those of each job; the rest stays."""
    client, store, bastion = client_of()
    launch = launch_of()
    job = replace(launch.jobs[0], env={"A": "1", "B": "1"}, retries=2)
    first = client.launch(replace(launch, jobs=(job,)))
    end(store, first.id)
    client.rerun(first.id, priority=1, env={"B": "2"})
    (changed,) = body_of(bastion).launch.jobs
    assert changed == replace(job, priority=1, env={"A": "1", "B": "2"})
    with pytest.raises(SpecError, match="priority: 9 is not allowed"):
        client.rerun(first.id, priority=9)


def test_a_launch_of_several_jobs_is_run_again_whole() -> None:
    """It works by the id of one of its jobs, or its own, even when all have ended."""
    client, store, bastion = client_of()
    first = client.launch(launch_of("a", "b"))
    for job in first.jobs:
        end(store, job, launch=first.id)
    for name in (first.jobs[1], first.id):
        assert len(client.rerun(name).jobs) == 2
        assert body_of(bastion).again_of == first.id


def test_a_rerun_with_a_key_is_made_once() -> None:
    """The same key gives the same jobs."""
    client, store, _ = client_of()
    first = client.launch(launch_of())
    end(store, first.id)
    one, two = (client.rerun(first.id, idempotency_key="k").jobs for _ in range(2))
    assert one == two


@pytest.mark.parametrize("name", ["nothing", "a/b"])
def test_what_never_was_cannot_be_run_again(name: str) -> None:
    """An unknown name, however odd, is an error."""
    client, store, _ = client_of()
    publish(store, "queue", {"jobs": []})
    end(store, "other-0123456789")
    with pytest.raises(NotFoundError, match="no job"):
        client.rerun(name)
    with pytest.raises(NotFoundError, match="no longer in the bucket"):
        client.rerun("other-0123456789")
