"""`bastion quota`: what happens to an edit, and how a program reads a check."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from pathlib import Path

import pytest

from bastion.records.keys import layout
from tests.launch.bucket import Bucket
from tests.launch.command_line import Run
from tests.launch.process import COMMAND, ROOT, environment
from tests.rigs.scripted_bastion import QUOTA


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the folder of temporary files; only `EDITOR` selects the editor."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("VISUAL", raising=False)
    return folder


def editor(folder: Path, *lines: str) -> str:
    """Return an editor that runs `lines` of shell; `$1` is the file to edit."""
    script = folder / "editor"
    script.write_text("\n".join(("#!/bin/sh", "set -e", *lines, "")), encoding="utf-8")
    script.chmod(0o700)
    return str(script)


def test_an_edit_with_a_mistake_is_kept_and_can_be_applied(
    run: Run, bucket: Bucket, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the file and its line, the hint has the command; once fixed, it works."""
    monkeypatch.setenv("EDITOR", editor(tmp_path, 'sed -i "s/v4 = 1024/v4 = many/" "$1"'))
    monkeypatch.delenv("BASTION_ROOT")
    ran = run("quota", "edit", f"--root={tmp_path / 'bucket'}")
    (file,) = temporary.glob("*/*.toml")
    assert (ran.code, ran.out) == (2, "")
    problem, hint = ran.err.splitlines()
    assert problem.startswith(f"error: {file}: line 4: not TOML")
    told, _, command = hint.rpartition("; your edit is kept; to apply it: bastion ")
    assert told == "hint: bastion help quota-file describes every key"
    assert command == f"quota apply --root={bucket.url} {file}"
    file.write_text(file.read_text().replace("many", "2048"))
    assert run(*shlex.split(command)).code == 0
    found = bucket.store.read(layout.QUOTA)
    assert found is not None
    assert found.data.decode() == QUOTA.replace("1024", "2048")


def test_an_edit_is_kept_where_the_editor_fails(
    run: Run, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had saved may be the work of an hour."""
    monkeypatch.setenv("EDITOR", editor(tmp_path, 'sed -i s/1024/2048/ "$1"', "exit 9"))
    ran = run("quota", "edit")
    (file,) = temporary.glob("*/*.toml")
    assert ran.err.splitlines() == [
        f"error: {tmp_path / 'editor'} exited with code 9; nothing was changed",
        f"hint: your edit is kept; to apply it: bastion quota apply {file}",
    ]
    assert file.read_text() == QUOTA.replace("1024", "2048")


def test_an_edit_never_undoes_what_another_admin_applied_meanwhile(
    run: Run, bucket: Bucket, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket keeps the other file, the edit is kept too, and the hint shows both options."""
    other, theirs = tmp_path / "other.toml", QUOTA.replace("v4 = 0.5", "v4 = 0.25")
    other.write_text(theirs)
    apply = shlex.join((*COMMAND, "quota", "apply", str(other)))
    lines = (f"export PYTHONPATH={ROOT}", apply, 'sed -i s/1024/2048/ "$1"')
    monkeypatch.setenv("EDITOR", editor(tmp_path, *lines))
    ran = run("quota", "edit")
    (file,) = temporary.glob("*/*.toml")
    assert ran.code == 1
    assert ran.err.splitlines()[-3:-1] == [
        "error: the quota file was changed by someone else after it was read; nothing was written",
        f"hint: your edit is kept; to see what it would change or undo: bastion quota diff {file};"
        f" to apply it: bastion quota apply {file}",
    ]
    found = bucket.store.read(layout.QUOTA)
    assert found is not None
    assert found.data.decode() == theirs
    assert "blue: 256 v4 -> 1024 v4" in run("quota", "diff", str(file)).out
    assert run("quota", "apply", str(file)).code == 0


@pytest.mark.parametrize(
    ("line", "code"), [("true", 0), ("false", 2), ('sed -i s/1024/2048/ "$1"', 0)]
)
def test_no_file_is_left_without_an_edit_to_keep(
    line: str,
    code: int,
    run: Run,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing was edited, or the edit is in the bucket."""
    monkeypatch.setenv("EDITOR", editor(tmp_path, line))
    assert run("quota", "edit").code == code
    assert list(temporary.iterdir()) == []


def test_a_file_is_edited_as_utf_8_in_every_locale(bucket: Bucket, tmp_path: Path) -> None:
    """Its comments have names of people, whatever the terminal of an admin can show."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    way = environment(bucket, tmp_path) | ascii_only
    command = [*COMMAND, "quota", "edit"]
    for name in ("Zoë", "Jürgen"):
        way["EDITOR"] = editor(tmp_path, f'echo "# {name}" >> "$1"')
        subprocess.run(command, env=way, cwd=tmp_path, check=True, capture_output=True)
    found = bucket.store.read(layout.QUOTA)
    assert found is not None
    assert found.data.decode() == f"{QUOTA}# Zoë\n# Jürgen\n"


def test_a_program_reads_the_problems_of_a_file(run: Run, tmp_path: Path) -> None:
    """With `--json` they are data on stdout; the exit code is that of a bad file."""
    bad = tmp_path / "bad.toml"
    bad.write_text(QUOTA.replace("v4 = 0.5", "v4 = 5").replace("eve", "../eve"))
    ran = run("quota", "check", "--json", str(bad))
    told = json.loads(ran.out)
    assert (ran.code, ran.err) == (2, "")
    assert (told["file"], told["projects"]) == (str(bad), [])
    shown = run("quota", "check", str(bad)).err.splitlines()
    assert [f"error: {each}" for each in told["problems"]] == shown[:-1]
    assert len(told["problems"]) > 1


def test_a_file_with_a_byte_order_mark_is_checked_as_a_bastion_reads_it(
    run: Run, tmp_path: Path
) -> None:
    """Windows editors write one; the reported error would be invisible in an editor."""
    quota, config = tmp_path / "quota.toml", tmp_path / "bastion.toml"
    quota.write_text(f"\ufeff{QUOTA}", encoding="utf-8")
    config.write_text('\ufeff[pools.a]\nprovider = "local"\nresources = { cpu = 1 }\ncount = 1\n')
    for words in (("quota", "check", str(quota)), ("config", "check", str(config))):
        assert run(*words).code == 0
    assert run("quota", "apply", str(quota)).code == 0


def test_a_program_reads_one_document_of_each_command(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """A command without rows, or that only writes, also prints one object with JSON."""
    file = tmp_path / "quota.toml"
    file.write_text(QUOTA)
    for words in (
        ["cancel", "--mine", "--state=held"],
        ["quota", "apply", str(file)],
        ["config", "set", "root=gs://a/b"],
        ["config", "activate", "default"],
    ):
        ran = run(*words, "--json")
        assert (ran.code, json.loads(ran.out)["schema"]) == (0, 1), words


@pytest.mark.parametrize("words", [["run"], ["launch", "--watch"]])
def test_json_is_not_mixed_with_what_jobs_print(run: Run, words: list[str]) -> None:
    """Nothing is submitted, and the hint names the two commands to use instead."""
    ran = run(*words, "--json", "--", "echo", "hello")
    assert (ran.code, ran.out) == (2, "")
    assert "cannot be mixed with JSON" in ran.err
    assert "bastion launch --json" in ran.err


def test_a_file_with_the_line_ends_of_windows_is_not_rewritten(
    run: Run, bucket: Bucket, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor that changes nothing changes nothing, and an edit keeps the other lines."""
    theirs = QUOTA.replace("\n", "\r\n")
    file = tmp_path / "quota.toml"
    file.write_bytes(theirs.encode())
    assert run("quota", "apply", str(file)).code == 0
    monkeypatch.setenv("EDITOR", editor(tmp_path, "true"))
    assert run("quota", "edit").err == "nothing was changed\n"
    monkeypatch.setenv("EDITOR", editor(tmp_path, 'sed -i s/1024/2048/ "$1"'))
    assert run("quota", "edit").code == 0
    found = bucket.store.read(layout.QUOTA)
    assert found is not None
    assert found.data.decode() == theirs.replace("1024", "2048")
