"""A build that cannot be installed leaves the machine as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bastion.agent.begin.upgrade import UpgradeError, install
from bastion.machine import Build

OLD = {"wheel": "wheels/old/b.whl", "digest": "old", "agent": ["--pool=gpu", "--build=old"]}
NEW = Build(wheel="wheels/new/b.whl", digest="new")


def machine(folder: Path, bootstrap: str) -> Path:
    """Return the folder of a start-up script with another program as bootstrap."""
    (folder / "boot.json").write_text(json.dumps(OLD))
    (folder / "bootstrap.py").write_text(f"import json, os, sys\n{bootstrap}\n")
    return folder


def test_the_bootstrap_installs_the_build_for_the_next_agent(tmp_path: Path) -> None:
    """It gets wheel, digest and arguments, and the name of the machine."""
    note = "open('seen', 'w').write(os.environ['BASTION_MACHINE'] + open('boot.json').read())"
    install(NEW, machine(tmp_path, note), "gpu-1-0")
    said = (tmp_path / "seen").read_text()
    assert said.startswith("gpu-1-0{")
    wanted = {"wheel": NEW.wheel, "digest": "new", "agent": ["--pool=gpu", "--build=new"]}
    assert json.loads(said.removeprefix("gpu-1-0")) == wanted
    assert (tmp_path / "boot.json").stat().st_mode & 0o777 == 0o600


def test_a_failed_installation_is_undone(tmp_path: Path) -> None:
    """The next boot runs the earlier build; the error has the end of the output."""
    folder = machine(tmp_path, "sys.exit('no such wheel')")
    with pytest.raises(UpgradeError, match=r"build new cannot be installed: .* no such wheel"):
        install(NEW, folder, "gpu-1-0")
    assert json.loads((folder / "boot.json").read_text()) == OLD
