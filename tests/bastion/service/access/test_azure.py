"""Permissions at Azure: assignments whose conditions are the grants."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bastion.errors import SpecError, StoreRefusedError
from bastion.service.access import azure
from bastion.service.access.azure import ROLES, Assignment, assignments, commands, role_of
from bastion.service.access.grants import People, Right, grants
from bastion.service.access.place import place_of
from tests.bastion.service.access.people import EVERY_KEY, MAY, MEMBERS, PEOPLE

PLACE = place_of("az://lab/box/some/bastion", kind="az")
GRANTS = grants(PEOPLE, MEMBERS)
BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
ACTIONS = {
    "Storage Blob Data Reader": (f"{BLOBS}/read",),
    **{
        ROLES[right]: tuple(map(str, list(role_of(right, "id")["DataActions"])))  # type: ignore[call-overload]
        for right in (Right.CREATE, Right.WRITE)
    },
}


def holds(condition: str, action: str, attributes: Mapping[str, str], *, lists: bool) -> bool:
    """Evaluate a condition, with the operators that Azure documents and ours use."""

    def like(found: re.Match[str]) -> str:
        values = re.findall(r"'((?:[^'\\]|\\.)*)'", found[2])
        patterns = (
            "".join(
                ".*" if part == "*" else "." if part == "?" else re.escape(part[-1])
                for part in re.findall(r"\\.|.", value)
            )
            for value in values
        )
        text = attributes.get(found[1])
        return str(text is not None and any(re.fullmatch(each, text) for each in patterns))

    text = re.sub(r"(@\w+\[[^\]]+\]) ForAnyOfAnyValues:StringLike \{([^}]*)\}", like, condition)
    text = re.sub(r"SubOperationMatches\{'Blob\.List'\}", str(lists), text)
    text = re.sub(r"ActionMatches\{'([^']+)'\}", lambda found: str(found[1] == action), text)
    text = (
        text.replace("!", " not ").replace("AND", "and").replace("OR", "or").replace("NOT", "not")
    )
    assert re.fullmatch(r"(True|False|and|or|not|[() ])*", text), text
    return bool(eval(text))


def allows(caller: str, action: str, key: str, *, lists: bool = False) -> bool:
    """Return Azure's decision: one assignment that allows it is enough."""
    name = f"some/bastion/{key}"
    attributes = {(f"@Request[{BLOBS}:prefix]" if lists else f"@Resource[{BLOBS}:path]"): name}
    return any(
        each.principal == caller
        and action in ACTIONS[ROLES[each.right]]
        and holds(each.condition, action, attributes, lists=lists)
        for each in assignments(PLACE, GRANTS)
    )


@pytest.mark.parametrize(("principal", "right"), MAY)
def test_the_assignments_are_the_grants(principal: str, right: Right) -> None:
    """For every kind of object, they allow what the grants say, and nothing else."""
    action = {
        Right.READ: f"{BLOBS}/read",
        Right.CREATE: f"{BLOBS}/add/action",
        Right.WRITE: f"{BLOBS}/delete",
    }[right]
    found = {name for name, key in EVERY_KEY.items() if allows(principal, action, key)}
    assert found == MAY[principal, right]


@pytest.mark.parametrize("name", EVERY_KEY)
def test_what_can_be_read_can_be_listed(name: str) -> None:
    """By the folder that it is in, and by nobody else."""
    folder = EVERY_KEY[name].rpartition("/")[0] + "/"
    for caller in ("A", "B", "gpus", "gps", "root", "cat"):
        listed = allows(caller, f"{BLOBS}/read", folder, lists=True)
        assert listed == (name in MAY.get((caller, Right.READ), set())), (caller, folder)


def test_only_writers_replace() -> None:
    """To replace a blob, Azure asks for the right to write, which creators do not have."""
    inbox = EVERY_KEY["request of ann in blue"]
    assert allows("A", f"{BLOBS}/add/action", inbox)
    assert not allows("A", f"{BLOBS}/write", inbox)
    assert allows("the-bastion", f"{BLOBS}/write", inbox)


def test_a_root_that_is_a_whole_container_needs_no_condition_for_its_bastion() -> None:
    """Other containers of the account are not in the scope of an assignment."""
    whole = place_of("az://lab/box", kind="az")
    (bastion,) = [each for each in assignments(whole, GRANTS) if each.principal == "the-bastion"]
    assert bastion == Assignment(principal="the-bastion", right=Right.WRITE, condition="")


@pytest.mark.parametrize("url", ["az://lab", "az://lab/Box", "az://lab/box//x"])
def test_a_root_without_a_container_gets_no_rights(url: str) -> None:
    """Its assignments would be for something else."""
    with pytest.raises(SpecError, match="must"):
        place_of(url, kind="az")


def test_a_condition_that_azure_would_not_take_is_refused() -> None:
    """A user in more projects than fit is an error, with a hint."""
    members = {f"project-{number:04}": ["ann"] for number in range(200)}
    many = grants(People(bastion="b", users={"ann": "A"}), members)
    with pytest.raises(SpecError, match="characters, at most 8192 are allowed") as caught:
        assignments(PLACE, many)
    assert "the condition of A would have" in str(caught.value)


FAKE = """#!/usr/bin/env python3
import json, os, sys
words = sys.argv[1:]
with open(os.environ["SAID"], "a") as file:
    file.write(json.dumps(words) + chr(10))
if os.environ.get("REFUSES", "-") in words:
    sys.exit("WARNING: x\\nERROR: (AuthorizationFailed) not allowed")
if words[:3] == ["storage", "account", "show"]:
    print("/subscriptions/1/resourceGroups/r/lab")
if words[:3] == ["role", "assignment", "create"]:
    print(os.environ.get("OTHER") or words[3].removeprefix("--name="))
if words[:3] == ["role", "definition", "list"] and os.environ.get("KNOWN"):
    print("a role")
"""


@pytest.fixture
def az(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a program `az` first that notes its words, and give the file of its notes."""
    program = tmp_path / "az"
    program.write_text(FAKE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    yield tmp_path / "said"


def said(az: Path) -> list[list[str]]:
    """Return the words of each call, and forget them."""
    calls = [json.loads(line) for line in az.read_text().splitlines()]
    az.unlink()
    return calls


def test_the_printed_commands_are_what_is_applied(az: Path, tmp_path: Path) -> None:
    """A shell that runs them does the same as `--apply`, in the same order."""
    lines = list(azure.apply(PLACE, GRANTS))
    applied = said(az)
    assert "az://lab/box: A is Bastion Blob Creator" in lines
    subprocess.run(["sh", "-euc", "\n".join(commands(PLACE, GRANTS))], check=True)
    assert said(az) == applied
    scopes = {word for call in applied for word in call if word.startswith("--scope=")}
    assert scopes == {
        "--scope=/subscriptions/1",
        "--scope=/subscriptions/1/resourceGroups/r/lab/blobServices/default/containers/box",
    }
    made = [call for call in applied if call[:3] == ["role", "definition", "create"]]
    roles = [json.loads(call[3].removeprefix("--role-definition=")) for call in made]
    assert [role["AssignableScopes"] for role in roles] == [["/subscriptions/1"]] * 2


def test_a_second_run_names_the_same_assignments(az: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So they are replaced, and the roles are not made again."""
    list(azure.apply(PLACE, GRANTS))
    first = said(az)
    monkeypatch.setenv("KNOWN", "yes")
    list(azure.apply(PLACE, GRANTS))
    second = said(az)
    assert second == [call for call in first if call[:3] != ["role", "definition", "create"]]
    names = [call[3] for call in second if call[:3] == ["role", "assignment", "create"]]
    assert len(set(names)) == len(assignments(PLACE, GRANTS))


@pytest.mark.usefixtures("az")
def test_another_assignment_of_the_same_role_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """`az` returns it without an error, but its condition is for other prefixes."""
    monkeypatch.setenv("OTHER", "1-2-3")
    with pytest.raises(StoreRefusedError, match="already, by the role assignment 1-2-3") as caught:
        list(azure.apply(PLACE, GRANTS))
    assert "a container holds one root" in caught.value.hint


@pytest.mark.usefixtures("az")
def test_what_azure_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the last line of `az`, and the role that is needed."""
    monkeypatch.setenv("REFUSES", "assignment")
    with pytest.raises(StoreRefusedError, match="az role assignment create: ERROR") as caught:
        list(azure.apply(PLACE, GRANTS))
    assert "Owner" in caught.value.hint


def test_without_the_azure_cli_the_commands_can_be_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says so."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreRefusedError, match="Azure CLI is not installed") as caught:
        list(azure.apply(PLACE, GRANTS))
    assert "leave out --apply" in caught.value.hint
    assert list(commands(PLACE, GRANTS))
