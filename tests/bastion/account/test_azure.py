"""The bastion gets exactly the rights that its machines at Azure need."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from bastion.account.azure import ROLE, role_of, steps
from bastion.account.needs import Needs
from bastion.provider.azure.rights import lacking

SUBSCRIPTION = "/subscriptions/s"
GROUP = f"{SUBSCRIPTION}/resourceGroups/ml"
NEEDS = Needs(bucket="lab/box", bastion="b@x.org", providers=("azure_vm",), resource_group="ml")
AZ = f"""#!/bin/sh
printf '%s\\n' "$*" >>"$0.log"
case "$*" in
  *"group show"*) echo {GROUP} ;;
  *"definition list"*) cat "$0.role" 2>/dev/null ;;
  *"definition create"*) echo made >"$0.role" ;;
  *"assignment list"*) cat "$0.given" 2>/dev/null ;;
  *"assignment create"*) echo given >"$0.given" ;;
esac
exit 0
"""


@pytest.fixture
def az(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an Azure CLI that remembers one role and one assignment."""
    program = tmp_path / "az"
    program.write_text(AZ)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


def test_the_role_has_what_the_provider_checks() -> None:
    """A bastion with the role lacks nothing, and the role allows no other kind of resource."""
    role = role_of(SUBSCRIPTION)
    actions = role["Actions"]
    assert isinstance(actions, list)
    assert lacking([{"actions": actions, "notActions": []}], GROUP) == ()
    assert not [each for each in actions if "*" in each]
    assert {each.partition("/")[0] for each in actions} == {
        "Microsoft.Compute",
        "Microsoft.Network",
        "Microsoft.ManagedIdentity",
    }


def test_the_steps_are_taken_once(az: Path) -> None:
    """The second time, nothing is left to be done."""
    done = [step.take() for step in steps(NEEDS)]
    assert done == [f"made the role {ROLE}", f"resource group ml: b@x.org is {ROLE}"]
    assert [step.take() for step in steps(NEEDS)] == ["", ""]


def test_the_printed_commands_do_the_same(az: Path) -> None:
    """A shell makes of them the calls that the steps make."""
    lines = "\n".join(line for step in steps(NEEDS) for line in step.commands)
    subprocess.run(["sh", "-eu", "-c", lines], check=True)
    said = az.with_name("az.log").read_text().splitlines()
    (made,) = [line for line in said if "definition create" in line]
    assert json.loads(made.partition("--role-definition=")[2]) == role_of(SUBSCRIPTION)
    (given,) = [line for line in said if "assignment create" in line]
    assert given.endswith(f"--scope={GROUP}")
    assert f"--role={ROLE} --assignee=b@x.org" in given
