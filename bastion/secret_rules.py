"""
The rules for which project can have which secrets, as `config/bastion.toml` declares them.

The default is to deny. A launch is checked when it is submitted and again at every start, so the
removal of a rule applies from the next start on. A start instruction carries the sources of granted
secrets; nothing here ever reads a value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from bastion.errors import SpecError
from bastion.spec.secret import Secret, source_problems
from bastion.value import value

EVERYONE = "*"
"""Means every project."""


@value
class Denied:
    """The refusal of a secret; `why` is one line for the user."""

    why: str


@value
class SecretRule:
    """A source of secrets, and the projects that can ask for them."""

    source: str
    """In a rule for sources, a pattern in which `*` matches any characters except `/`."""
    projects: tuple[str, ...]

    def allows(self, project: str) -> bool:
        """Whether `project` can ask for the secrets of this rule."""
        return project in self.projects or EVERYONE in self.projects

    def covers(self, source: str) -> bool:
        """Whether the pattern matches `source`."""
        pattern = "[^/]*".join(map(re.escape, self.source.split("*")))
        return re.fullmatch(pattern, source) is not None


@value
class SecretRules:
    """
    All rules; without any, a project can have only the files of its own folder.

    `named` has secrets that jobs ask for by name. `sources` has the sources that jobs can name.
    """

    named: Mapping[str, SecretRule] = field(default_factory=dict)
    sources: tuple[SecretRule, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        for name, rule in self.named.items():
            for problem in _rule_problems(name, rule):
                problems.append(f"secrets.{name}.{problem}")
        for at, rule in enumerate(self.sources):
            wrong = [*source_problems(rule.source, wildcard="*"), *_project_problems(rule)]
            problems += [f"secret_sources.{at}.{problem}" for problem in wrong]
        if problems:
            raise SpecError(*problems)

    @property
    def are_declared(self) -> bool:
        """Whether the admin declared any rule."""
        return bool(self.named or self.sources)

    def source_of(self, project: str, secret: Secret) -> str | Denied:
        """Return the source of the `secret` that `project` asks for, or why it is denied."""
        if not self.are_declared:
            return _undeclared(project, secret)
        rule = self.named.get(secret.name)
        if rule is not None and secret.source in ("", rule.source):
            if rule.allows(project):
                return rule.source
            return Denied(why=f"{secret.name} is not for project {project}{self._known(project)}")
        if not secret.source:
            return Denied(why=f"{secret.name} is not declared{self._nearest(project, secret.name)}")
        if any(each.allows(project) and each.covers(secret.source) for each in self.sources):
            return secret.source
        return Denied(
            why=f"{secret.name}: no secret_sources lets project {project} ask for {secret.source}"
        )

    def problems(self, project: str, secrets: Iterable[Secret]) -> list[str]:
        """Return why `project` cannot have these `secrets`, one line for each that is denied."""
        found = (self.source_of(project, secret) for secret in secrets)
        return [f"secrets: {each.why}" for each in found if isinstance(each, Denied)]

    def granted(self, project: str, secrets: Iterable[Secret]) -> dict[str, str]:
        """Return the sources of the `secrets` that `project` can have, by name."""
        found = {secret.name: self.source_of(project, secret) for secret in secrets}
        return {name: each for name, each in found.items() if isinstance(each, str)}

    def _names(self, project: str) -> list[str]:
        return sorted(name for name, rule in self.named.items() if rule.allows(project))

    def _known(self, project: str) -> str:
        names = self._names(project)
        return f"; it may ask for {', '.join(names)}" if names else ""

    def _nearest(self, project: str, name: str) -> str:
        near = difflib.get_close_matches(name, self._names(project), n=1)
        return f"; did you mean {near[0]}?" if near else self._known(project)


def _undeclared(project: str, secret: Secret) -> str | Denied:
    """Apply the default rule: a project can have the files of its own folder on the machine."""
    if not secret.source:
        return f"file:{project}/{secret.name}"
    if secret.source.startswith(f"file:{project}/"):
        return secret.source
    return Denied(
        why=f"{secret.name}: {secret.source} is not granted: config/bastion.toml declares no"
        f" secrets, so project {project} may have file:{project}/... and nothing else"
    )


def _rule_problems(name: str, rule: SecretRule) -> list[str]:
    problems = _project_problems(rule)
    try:
        Secret(name, source=rule.source)
    except SpecError as error:
        problems += error.problems
    return problems


def _project_problems(rule: SecretRule) -> list[str]:
    if rule.projects:
        return []
    return ['projects: names none; say which may ask for it, or ["*"] for every project']
