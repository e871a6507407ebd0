"""`Client()` uses the same bastion as the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.admin import Admin
from bastion.client import Client
from bastion.errors import SpecError, StoreError


@pytest.fixture(autouse=True)
def _own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a configuration folder of the test, and no variables."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("BASTION_ROOT", "BASTION_USER", "BASTION_PROJECT"):
        monkeypatch.delenv(name, raising=False)


def test_a_client_without_a_root_takes_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root, user and project come from the active profile; variables and arguments override it."""
    folder = tmp_path / "config" / "bastion"
    folder.mkdir(parents=True)
    root = (tmp_path / "bucket").as_uri()
    (folder / "config.toml").write_text(
        f'active = "a"\n[profiles.a]\nroot = "{root}"\nuser = "ada"\nproject = "blue"\n'
    )
    (tmp_path / "bucket").mkdir()
    client = Client()
    assert (client.root, client.user, client.project) == (root, "ada", "blue")
    monkeypatch.setenv("BASTION_PROJECT", "green")
    assert Client().project == "green"
    client = Client(user="eve", project="red")
    assert (client.root, client.user, client.project) == (root, "eve", "red")


def test_a_root_that_is_named_stands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an explicit root nothing else is used: it may be another bastion's."""
    monkeypatch.setenv("BASTION_PROJECT", "green")
    assert Client(tmp_path.as_uri(), user="ada").project == ""


def test_a_path_is_a_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like `--root`, it is a relative or absolute path, as text or as a Path."""
    (tmp_path / "bucket").mkdir()
    monkeypatch.chdir(tmp_path)
    folder = (tmp_path / "bucket").as_uri()
    for written in ("bucket", "./bucket", str(tmp_path / "bucket"), Path("bucket")):
        assert Client(written).root == Admin(written).root == folder


def test_no_bastion_at_all_is_told() -> None:
    """Without any root, the error has the two ways to set one."""
    with pytest.raises(SpecError, match="no bastion named") as none:
        Client()
    assert "bastion config set root=URL" in none.value.hint


def test_a_root_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    """The traceback of a script ends with it, without a second one of ours."""
    with pytest.raises(StoreError, match="is out of reach") as away:
        Client((tmp_path / "nowhere").as_uri()).status()
    assert away.value.__suppress_context__
    assert away.value.__cause__ is None
