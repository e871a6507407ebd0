"""
Secrets: references in a launch to values that it must not contain.

A spec names a secret, and optionally its source. The value is read on the machine just before the
start and is never stored. Admins decide which project may use which secret: `bastion.secret_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bastion.errors import SpecError
from bastion.spec.values.spec_value import value
from bastion.spec.values.typed import check_types
from bastion.value import field
from quota.pattern import pattern

MIN_SECRET_BYTES = 8
"""A shorter value is refused: masking it in logs would hide ordinary words."""
MAX_SECRET_BYTES = 64 << 10
"""Source: Google Secret Manager and AWS Secrets Manager, quotas: 65,536 bytes each."""

MAX_NAME_CHARACTERS = 100
"""Per name of a secret; root holds it with every job that uses it."""
MAX_SECRETS = 100
"""Per job."""

VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]*")

_KINDS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "env": (VARIABLE, "env:NAME"),
    "file": (pattern(r"(?!/)(?!.*(?:^|/)\.{0,2}(?:/|$))[^\0]{1,512}"), "file:PATH, relative"),
    "gcp": (
        pattern(r"projects/[a-z0-9:.-]+/secrets/[A-Za-z0-9_-]+(?:/versions/[A-Za-z0-9_-]+)?"),
        "gcp:projects/PROJECT/secrets/SECRET or .../versions/VERSION",
    ),
    "aws": (pattern(r"[A-Za-z0-9/_+=.@:-]{1,2048}"), "aws:NAME or aws:ARN"),
    "azure": (
        pattern(r"[A-Za-z0-9-]{3,24}(?:\.[a-z0-9.-]+)?/[A-Za-z0-9-]{1,127}(?:/[0-9a-f]{32})?"),
        "azure:VAULT/SECRET or azure:VAULT/SECRET/VERSION",
    ),
}
"""
The pattern after each kind of source, and its description for errors.

Source: Secret Manager v1, `projects.secrets.create` (`secretId`); AWS Secrets Manager,
`CreateSecret` (`Name`); an ARN adds the colon; Azure Key Vault, "Object identifiers".
"""


@value
class Secret:
    """
    A secret that a process gets as the variable `name`.

    `source` is `env:NAME`, `file:PATH`, `gcp:projects/P/secrets/S` with or without `/versions/V`,
    `aws:NAME` or an ARN, `azure:VAULT/S` with or without `/V`; empty: the source that the admin set
    for `name`. With `file=True` the value is also written to a file that only the job's user can
    read; `<name>_FILE` has its path. The file is deleted when the job ends.
    """

    name: str = field(kw_only=False)
    source: str = ""
    file: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        problems = []
        if len(self.name) > MAX_NAME_CHARACTERS:
            problems.append(f"name: {len(self.name)} characters; at most {MAX_NAME_CHARACTERS}")
        elif not VARIABLE.fullmatch(self.name):
            problems.append(
                f"name: {self.name!r} is not the name of a variable (letters, digits, _)"
            )
        elif self.name.startswith("BASTION_"):
            problems.append(f"name: {self.name} is the bastion's; it begins with BASTION_")
        if self.source:
            problems += source_problems(self.source)
        if problems:
            raise SpecError(*problems)


def secret_of(text: str) -> Secret:
    """
    Parse a secret: `NAME` or `NAME=SOURCE`.

    Raises:
        SpecError: It is malformed; the error lists every problem.
    """
    name, equals, source = text.partition("=")
    if equals and not source:
        raise SpecError(
            f"source: empty in {text!r}; leave out the = if an admin has declared the secret"
        )
    return Secret(name, source=source)


def source_problems(source: str, *, wildcard: str = "") -> list[str]:
    """
    Return the problems of `source`, each starting with `source`; none if it is valid.

    `wildcard` is a character that patterns may contain.
    """
    kind, colon, rest = source.partition(":")
    if not colon or kind not in _KINDS:
        allowed = ", ".join(said for _, said in _KINDS.values())
        return [f"source: {source!r} is not known; allowed: {allowed}"]
    pattern, said = _KINDS[kind]
    if not pattern.fullmatch(rest.replace(wildcard, "x") if wildcard else rest):
        return [f"source: {source!r} is not of the form {said}"]
    return []


def secrets_problems(secrets: Iterable[Secret], env: Mapping[str, str]) -> list[str]:
    """Return the problems of secrets that are used together with the variables `env`."""
    problems: list[str] = []
    sources: dict[str, str] = {}
    for secret in secrets:
        if secret.name in env:
            problems.append(f"secrets.{secret.name}: env sets this variable too; take one out")
        elif sources.setdefault(secret.name, secret.source) != secret.source:
            problems.append(f"secrets.{secret.name}: asked for from two sources; name one")
    return problems
