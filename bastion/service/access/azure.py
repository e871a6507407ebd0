"""
Rights and settings in terms of Azure: role assignments on a container, with conditions.

Each identity gets at most one assignment for each right. Its condition lists the prefixes. Two
roles are made, because those of Azure allow too much. The first can add blobs, but not replace one:
for that, Azure requires the right to write. The second can write blobs, but cannot delete the
container.

Rights are given with the Azure CLI, and names of users are resolved by it.

Source: Azure RBAC, "Azure role assignment condition format and syntax"; Azure Storage, "Actions and
attributes for Azure role assignment conditions", "Put Blob" (authorization).
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID, uuid5

from bastion.errors import SpecError, StoreError, StoreRefusedError
from bastion.service.access.grants import Grant, Right
from bastion.service.access.place import Place
from bastion.value import value

CONDITION_CHARS = 8192
"""Longest condition. Source: Azure RBAC, "Troubleshoot Azure role assignment conditions"."""

_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_PATH = f"@Resource[{_BLOBS}:path]"
_PREFIX = f"@Request[{_BLOBS}:prefix]"
ROLES = {
    Right.READ: "Storage Blob Data Reader",
    Right.CREATE: "Bastion Blob Creator",
    Right.WRITE: "Bastion Blob Writer",
}
_CHANGES: dict[Right, tuple[str, ...]] = {
    Right.READ: (),
    Right.CREATE: ("add/action",),
    Right.WRITE: ("write", "delete", "add/action"),
}
"""What a right allows beside reading, below the blobs."""

_NAMES = UUID("6f5f1a1e-0d0c-4c39-9d62-6a1a2f1f8b5e")
"""The space of the names of assignments: the same grant has the same name, and is replaced."""

_GROUPS = "/resourceGroups/"
"""What follows the subscription in the id of an account."""

_TIMEOUT_S = 300.0


@value
class Assignment:
    """One right of one identity, below some prefixes of the container."""

    principal: str
    """An object id, or a name that the Azure CLI resolves."""
    right: Right
    condition: str
    """Empty: in the whole container."""


def assignments(place: Place, grants: Iterable[Grant]) -> tuple[Assignment, ...]:
    """
    Return the assignments that give `grants`.

    Raises:
        SpecError: An identity has more prefixes than a condition holds.
    """
    prefixes: dict[tuple[str, Right], list[str]] = defaultdict(list)
    for grant in grants:
        found = prefixes[grant.principal, grant.right]
        prefix = place.folder + grant.prefix
        found += [prefix] if prefix not in found else []
    made = tuple(
        Assignment(principal=principal, right=right, condition=_condition(right, found))
        for (principal, right), found in prefixes.items()
    )
    for each in made:
        if len(each.condition) > CONDITION_CHARS:
            raise SpecError(
                f"the condition of {each.principal} would have {len(each.condition)} characters, at"
                f" most {CONDITION_CHARS} are allowed",
                hint="put fewer projects into one root, or give the user's projects to a group",
            )
    return made


def _condition(right: Right, prefixes: Sequence[str]) -> str:
    """Return a condition that is true for all that is below `prefixes`."""
    if "" in prefixes:
        return ""
    quoted = ", ".join(f"'{_escaped(prefix)}*'" for prefix in prefixes)
    below = f"ForAnyOfAnyValues:StringLike {{{quoted}}}"
    read = f"ActionMatches{{'{_BLOBS}/read'}}"
    listing = "SubOperationMatches{'Blob.List'}"
    actions = [f"!(ActionMatches{{'{_BLOBS}/{each}'}})" for each in _CHANGES[right]]
    lists = []
    if right is not Right.CREATE:
        actions.append(f"!({read} AND NOT {listing})")
        lists = [f"((!({read} AND {listing})) OR ({_PREFIX} {below}))"]
    return " AND ".join([f"(({' AND '.join(actions)}) OR ({_PATH} {below}))", *lists])


def _escaped(prefix: str) -> str:
    return prefix.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?").replace("'", "\\'")


def commands(place: Place, grants: Iterable[Grant]) -> Iterator[str]:
    """
    Yield the shell commands for `az` that do what `apply` does.

    Raises:
        SpecError: An identity has more prefixes than a condition holds.
    """
    account, container = place.bucket.split("/")
    wanted = assignments(place, grants)
    yield f'account="$({shlex.join(_shown(account))})"'
    yield f'container="$account/blobServices/default/containers/{container}"'
    yield f'subscription="${{account%{_GROUPS}*}}"'
    for words in _settings(account):
        yield shlex.join(words)
    for right in (Right.CREATE, Right.WRITE):
        text = shlex.quote(json.dumps(role_of(right, "@"))).replace("@", "'\"$subscription\"'")
        yield (
            f'[ -n "$({shlex.join(_known_role(right))} --scope="$subscription")" ] ||'
            f" az role definition create --role-definition={text}"
        )
    for each in wanted:
        yield f'{shlex.join(_assigned(place, each))} --scope="$container"'


def apply(place: Place, grants: Iterable[Grant]) -> Iterator[str]:
    """
    Apply the settings and `grants` with the Azure CLI, and yield one line for each change.

    Changes before an error stay.

    Raises:
        SpecError: An identity has more prefixes than a condition holds.
        StoreRefusedError: Azure refused, or `az` is not installed.
        StoreError: Azure did not answer in time; run it again.
    """
    account, container = place.bucket.split("/")
    wanted = assignments(place, grants)
    whole = ran(_shown(account)).strip()
    for words in _settings(account):
        ran(words)
    yield f"az://{account}: no public access, TLS 1.2, no soft delete, no versions"
    subscription = whole.partition(_GROUPS)[0]
    for right in (Right.CREATE, Right.WRITE):
        if not ran((*_known_role(right), f"--scope={subscription}")).strip():
            text = json.dumps(role_of(right, subscription))
            ran(("az", "role", "definition", "create", f"--role-definition={text}"))
            yield f"made the role {ROLES[right]}"
    scope = f"{whole}/blobServices/default/containers/{container}"
    for each in wanted:
        _check_name(each, place, ran((*_assigned(place, each), f"--scope={scope}")).strip())
        yield f"az://{place.bucket}: {each.principal} is {ROLES[each.right]}"


def _shown(account: str) -> tuple[str, ...]:
    return ("az", "storage", "account", "show", f"--name={account}", "--query=id", "--output=tsv")


def _settings(account: str) -> Iterator[tuple[str, ...]]:
    """
    Yield commands for the settings of the account.

    Soft delete and versions keep, and bill, every replaced version of root, at one per second. The
    copies of root, and prefixes where nothing is replaced, protect the data instead.
    """
    yield (
        *("az", "storage", "account", "update", f"--name={account}"),
        *("--allow-blob-public-access=false", "--min-tls-version=TLS1_2"),
    )
    yield (
        *("az", "storage", "account", "blob-service-properties", "update"),
        *(f"--account-name={account}", "--enable-delete-retention=false"),
        "--enable-versioning=false",
    )


def _known_role(right: Right) -> tuple[str, ...]:
    named = ("az", "role", "definition", "list", f"--name={ROLES[right]}")
    return (*named, "--custom-role-only=true", "--query=[].id", "--output=tsv")


def role_of(right: Right, scope: str) -> Mapping[str, object]:
    """Return the role for a right; `scope` is the id of the subscription that has it."""
    read = ("read",) if right is Right.WRITE else ()
    return {
        "Name": ROLES[right],
        "Description": f"{right.capitalize()} blobs of a root of Bastion.",
        "DataActions": [f"{_BLOBS}/{each}" for each in (*read, *_CHANGES[right])],
        "AssignableScopes": [scope],
    }


def _assigned(place: Place, each: Assignment) -> tuple[str, ...]:
    who = "--assignee" if "@" in each.principal else "--assignee-object-id"
    condition = (f"--condition={each.condition}", "--condition-version=2.0")
    return (
        *("az", "role", "assignment", "create", f"--name={_name(place, each)}"),
        *(f"{who}={each.principal}", f"--role={ROLES[each.right]}"),
        *("--query=name", "--output=tsv"),
        *(condition if each.condition else ()),
    )


def _name(place: Place, each: Assignment) -> str:
    text = f"{place.bucket}/{place.folder}\n{each.principal}\n{each.right}"
    return str(uuid5(_NAMES, text))


def _check_name(each: Assignment, place: Place, made: str) -> None:
    """
    Check that the assignment was made: `az` succeeds if there is another one of the same role.

    Raises:
        StoreRefusedError: There is another one, whose condition stays as it is.
    """
    if made != _name(place, each):
        raise StoreRefusedError(
            f"az://{place.bucket}: {each.principal} is {ROLES[each.right]} already, by the role"
            f" assignment {made}",
            hint="a container holds one root; if it does, delete that assignment:"
            " az role assignment delete",
        )


def ran(words: Sequence[str]) -> str:
    """
    Run one command of the Azure CLI; return what it printed.

    Raises:
        StoreRefusedError: Azure refused, or `az` is not installed.
        StoreError: Azure did not answer in time.
    """
    if shutil.which(words[0]) is None:
        raise StoreRefusedError(
            "the Azure CLI is not installed, and --apply needs it",
            hint="install it, or leave out --apply and run the printed commands where it is",
        )
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise StoreError(f"{shlex.join(words)}: no end after {_TIMEOUT_S:g} s") from error
    if done.returncode:
        why = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise StoreRefusedError(
            f"{shlex.join(words[:4])}: {why[-1]}",
            hint="this needs the role Owner, or Role Based Access Control Administrator with"
            " Storage Account Contributor; run: az login",
        )
    return done.stdout
