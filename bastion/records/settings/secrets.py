"""The secret rules in `config/bastion.toml`, as read by the bastion and by a client's dry run."""

from __future__ import annotations

import tomllib

from pydantic import BaseModel, ConfigDict, Field

from bastion.secret_rules import SecretRule, SecretRules


class SecretTable(BaseModel):
    """One `[secrets.NAME]` table, or one of `[[secret_sources]]`."""

    model_config = ConfigDict(extra="forbid")

    source: str
    projects: list[str]


class SecretTables(BaseModel):
    """All tables about secrets."""

    secrets: dict[str, SecretTable] = Field(default_factory=dict)
    secret_sources: list[SecretTable] = Field(default_factory=list)

    def rules_made(self) -> SecretRules:
        """
        Return the rules in the tables.

        Raises:
            SpecError: A rule cannot be used; every problem is listed.
        """

        def rule(table: SecretTable) -> SecretRule:
            return SecretRule(source=table.source, projects=tuple(table.projects))

        return SecretRules(
            named={name: rule(table) for name, table in self.secrets.items()},
            sources=tuple(map(rule, self.secret_sources)),
        )


def rules_in(config_text: str) -> SecretRules:
    """Return the rules of a configuration in force, which the bastion has checked."""
    return SecretTables.model_validate(tomllib.loads(config_text)).rules_made()
