"""Which parts of a folder are sent as code."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.client.code.named_files import missing_file_warnings
from bastion.client.code.upload import problems_here, resolve_code
from bastion.errors import SpecError
from bastion.spec import Job, Launch, Process
from bastion.store.memory import MemoryStore
from bundler.code import LocalDir


@pytest.mark.parametrize("name", ["bucket", "a [b]*"])
def test_a_bucket_inside_the_code_is_not_sent(tmp_path: Path, name: str) -> None:
    """Its bastion writes to it all the time. Nothing else is left out."""
    for path in ("train.py", f"{name}/view/queue.json", "a bb/data.txt", f"in/{name}/file"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    others = {"train.py", "a bb/data.txt", f"in/{name}/file"}
    for url, paths in (
        ((tmp_path / name).as_uri(), others),
        ("gs://bucket/x", {*others, f"{name}/view/queue.json"}),
    ):
        code = LocalDir(str(tmp_path))
        bundled = resolve_code(code, MemoryStore(lambda: 0.0), url=url, start=tmp_path).bundled
        assert bundled is not None
        assert bundled.paths == paths, url


def test_a_bucket_that_is_the_code_is_refused(tmp_path: Path) -> None:
    """A bundle of it would contain all earlier bundles, and grow with each launch."""
    (tmp_path / "train.py").write_text("")
    store = MemoryStore(lambda: 0.0)
    with pytest.raises(SpecError, match=r"code\.root: .* is also the bucket") as caught:
        resolve_code(LocalDir(str(tmp_path)), store, url=tmp_path.as_uri(), start=tmp_path)
    assert "a folder of its own" in caught.value.hint
    assert not store.list("")
    (problem,) = problems_here(LocalDir(str(tmp_path)), None, url=tmp_path.as_uri(), start=tmp_path)
    assert problem.startswith("code.root: ")


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["python3", "train.py", "--config=conf.yaml"], "conf.yaml"),
        (["python3", "./old.py", "data/x.bin", "out", "gone.yaml"], "./old.py, data/x.bin"),
        ("cd conf && python3 train.py 'conf.yaml';cat<old.py", "conf.yaml, old.py"),
        (["python3", "train.py", "conf/base.yaml", "link/base.yaml", "/etc/hostname", ""], ""),
    ],
)
def test_a_file_of_the_command_that_is_left_out_is_told(
    tmp_path: Path, command: list[str] | str, named: str
) -> None:
    """Git ignores it, so the job would not find it; other files cause no message."""
    for path in ("train.py", "old.py", "conf.yaml", "conf/base.yaml", "data/x.bin", "out/a"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / "link").symlink_to("conf")
    (tmp_path / ".gitignore").write_text("/conf.yaml\nold.py\ndata/\nout/\n")
    sent = resolve_code(LocalDir(str(tmp_path)), MemoryStore(lambda: 0.0), start=tmp_path)
    process = Process(command, shell=isinstance(command, str))
    launch = Launch(name="a", jobs=[Job(processes=[process])])
    assert sent.bundled is not None
    warnings = missing_file_warnings(launch, sent.bundled)
    assert [warning.partition(", left out")[0] for warning in warnings] == (
        [f"a command names {named}"] if named else []
    )


def test_an_interrupted_upload_says_that_nothing_was_submitted(tmp_path: Path) -> None:
    """Before the code is sent, no job refers to it."""
    (tmp_path / "train.py").write_text("")

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        resolve_code(LocalDir(str(tmp_path)), MemoryStore(lambda: 0.0), start=tmp_path, report=stop)
    assert caught.value.__notes__ == ["nothing was submitted"]
