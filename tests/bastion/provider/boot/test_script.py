"""The start-up script is plain shell, safe with any inserted values, and small."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.machine import Pool
from bastion.provider.boot import Boot, cloud_init, startup_script
from bastion.provider.boot.bare_program import bootstrap
from quota.amounts import Amounts

EC2_BYTES = 16 << 10
"""Source: Amazon EC2 User Guide, "User data is limited to 16 KB"."""

BOOT = Boot(
    root_url="s3://bucket/team/bastion?region_name=eu-west-1",
    bucket="b0b0",
    wheel=f"wheels/{'a' * 64}/bastion_orchestrator-0.1.0-py3-none-any.whl",
    digest="a" * 64,
)
POOL = Pool(
    name="gpu",
    provider="ec2",
    resources=Amounts({"h100": 8, "cpu": 192, "memory": 2 << 40}),
    max_machines=2,
    labels={"cluster": "primary"},
)
EVIL = ("echo 'one' \"$two\" `three` @STAYS@ \\n", "END", "a\nEND\nrm -rf x", "$(touch evil)")


def test_it_fits_into_the_user_data_of_ec2() -> None:
    """With cloud-init's frame, two kilobytes are left for the pool's own commands."""
    script = startup_script(POOL, BOOT, machine="printf %s gpu-12-0")
    assert len(cloud_init(script).encode()) < EC2_BYTES - 2048


def test_a_pod_knows_the_role_of_its_service_account() -> None:
    """Only a pod does: other machines have one of their own, and less room for a script."""
    for provider, is_in in (("kubernetes", True), ("ec2", False)):
        script = startup_script(replace(POOL, provider=provider), BOOT, machine="printf %s gpu-1-0")
        assert ("AssumeRoleWithWebIdentity" in script) is is_in


def test_only_a_root_in_azure_needs_its_part() -> None:
    """Other machines have less room for a script."""
    for root_url, is_in in (("az://lab/box/root", True), ("s3://bucket/root", False)):
        script = startup_script(POOL, replace(BOOT, root_url=root_url), machine="printf %s gpu-1-0")
        assert ("x-ms-blob-type" in script) is is_in


def test_a_machine_installs_what_its_kind_needs() -> None:
    """Hosts of a slice install what an agent on a TPU needs, and others what every agent does."""
    slices = replace(POOL, provider="gcp_tpu", resources=Amounts({"v5e": 8}))
    for pool, needs in ((POOL, "agent"), (slices, "tpu")):
        assert f'"needs":"{needs}"' in startup_script(pool, BOOT, machine="printf %s gpu-12-0")


@pytest.mark.parametrize("stays", [True, False])
def test_shellcheck_finds_nothing(tmp_path: Path, stays: bool) -> None:
    """Shellcheck finds no error in the script, or in the script within it."""
    shellcheck = Path(sys.executable).with_name("shellcheck")
    if not shellcheck.exists():
        pytest.skip("shellcheck is not installed")
    boot = replace(BOOT, stays=stays)
    text = startup_script(replace(POOL, setup=EVIL), boot, machine="printf %s gpu-12-0")
    inner = text.partition("cat >run.new <<'END'\n")[2].partition("\nEND\n")[0]
    for name, each in (("script", text), ("run", f"#!/bin/sh\n{inner}\n")):
        (tmp_path / name).write_text(each)
        # 2154: `dir` comes from the outer script, which exports it.
        command = [str(shellcheck), "--exclude=SC2154", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stdout == ""


def test_what_it_is_filled_with_stays_text(tmp_path: Path) -> None:
    """Commands, labels and options of a pool arrive as they were written, and none is run."""
    folder = tmp_path / "a folder $(touch evil)"
    pool = replace(
        POOL, setup=EVIL, labels={"x": EVIL[0]}, options={"folder": str(folder), "python": "no'ne"}
    )
    script = startup_script(pool, BOOT, machine="printf %s gpu-12-0")
    only_files = script.partition("mv run.new run")[0]
    subprocess.run(["sh", "-c", only_files], cwd=tmp_path, check=True, env={"PATH": "/bin"})
    said = json.loads((folder / "boot.json").read_text())
    assert tuple(said["setup"]) == EVIL
    assert f"--label=x={EVIL[0]}" in said["agent"]
    assert said["python"] == "no'ne"
    assert not list(tmp_path.rglob("evil"))
    assert (folder / "boot.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("more", [(), ("pod_role",), ("pod_role", "azure_call")])
def test_the_bootstrap_keeps_its_program_and_loses_the_rest(more: tuple[str, ...]) -> None:
    """The embedded code compiles, and differs only in docstrings, comments and types."""
    text = bootstrap(*more)
    tree = ast.parse(text)
    assert '"""' not in text and "annotations" not in text and "typing" not in text
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"main", "downloaded", "interpreter", "of_s3", "of_gcs"} <= names
    features = ast.parse(text, feature_version=(3, 7))
    assert ast.dump(features) == ast.dump(tree)


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_every_shell_can_read_it(shell: str) -> None:
    """The shells of Debian, Amazon Linux and Alpine find no error in it."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    command = [found, "sh", "-n"] if shell == "busybox" else [found, "-n"]
    script = startup_script(POOL, BOOT, machine="printf %s gpu-12-0")
    subprocess.run(command, input=script.encode(), check=True)
