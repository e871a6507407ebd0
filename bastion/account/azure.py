"""
The bastion's rights at Azure: a role for the machines that it creates, and who has it.

Accounts, containers and identities are created with the Azure CLI, which also runs these commands.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping

from bastion.account.needs import Needs, Step
from bastion.errors import SpecError
from bastion.provider.azure.rights import ACTIONS, BESIDE
from bastion.service.access.azure import ran
from bastion.value import value

ROLE = "Bastion Machines"
_GROUPS = "/resourceGroups/"


def steps(needs: Needs) -> Iterator[Step]:
    """
    Yield the steps for the machines of one resource group.

    Raises:
        SpecError: The resource group is missing.
    """
    if not needs.resource_group:
        raise SpecError(
            "--resource_group: missing; name the resource group in which machines are created"
        )
    yield Role(group=needs.resource_group)
    yield Assignment(group=needs.resource_group, bastion=needs.bastion)


def role_of(subscription: str) -> Mapping[str, object]:
    """Return the role that creates and deletes VMs; `subscription` is the id of its scope."""
    return {
        "Name": ROLE,
        "Description": "Create and delete the VMs of a bastion.",
        "Actions": [*ACTIONS, *BESIDE],
        "AssignableScopes": [subscription],
    }


@value
class Role:
    """The role, in the subscription of a resource group."""

    group: str

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`."""
        subscription = f"${{group%{_GROUPS}*}}"
        text = shlex.quote(json.dumps(role_of("@"))).replace("@", f"'\"{subscription}\"'")
        known, scope = shlex.join(_known()), f'--scope="{subscription}"'
        return (
            f'group="$({shlex.join(_shown(self.group))})"',
            f'[ -n "$({known} {scope})" ] || az role definition create --role-definition={text}',
        )

    def take(self) -> str:
        """See `Step`."""
        subscription = ran(_shown(self.group)).strip().partition(_GROUPS)[0]
        if ran((*_known(), f"--scope={subscription}")).strip():
            return ""
        text = json.dumps(role_of(subscription))
        ran(("az", "role", "definition", "create", f"--role-definition={text}"))
        return f"made the role {ROLE}"


@value
class Assignment:
    """The role, given to the bastion in one resource group."""

    group: str
    bastion: str

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`; `Role` sets `group`."""
        return (f'{shlex.join(self._words())} --scope="$group"',)

    def take(self) -> str:
        """See `Step`."""
        scope = ran(_shown(self.group)).strip()
        held = ("az", "role", "assignment", "list", f"--role={ROLE}", f"--scope={scope}")
        who = f"--assignee={self.bastion}"
        if ran((*held, who, "--query=[].id", "--output=tsv")).strip():
            return ""
        ran((*self._words(), f"--scope={scope}"))
        return f"resource group {self.group}: {self.bastion} is {ROLE}"

    def _words(self) -> tuple[str, ...]:
        who = "--assignee" if "@" in self.bastion else "--assignee-object-id"
        named = ("az", "role", "assignment", "create", f"--role={ROLE}")
        return (*named, f"{who}={self.bastion}", "--query=name", "--output=tsv")


def _shown(group: str) -> tuple[str, ...]:
    return ("az", "group", "show", f"--name={group}", "--query=id", "--output=tsv")


def _known() -> tuple[str, ...]:
    named = ("az", "role", "definition", "list", f"--name={ROLE}")
    return (*named, "--custom-role-only=true", "--query=[].id", "--output=tsv")
