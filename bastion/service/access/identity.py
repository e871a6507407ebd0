"""Identities, as the policy of a bucket takes them: a cloud's own words about another come late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bastion.errors import SpecError
from bastion.service.access.grants import People
from quota.pattern import pattern

IDENTITIES = {
    "gs": pattern(r"(user|serviceAccount|group|domain):.+|(principal|principalSet)://.+"),
    "s3": pattern(r"arn:.+|[0-9]{12}"),
}
"""By the kind of a root. Source: IAM's principals at Google, and those at Amazon."""
EXAMPLES = {
    "gs": "serviceAccount:NAME@PROJECT.iam.gserviceaccount.com, or user:NAME@example.com",
    "s3": "arn:aws:iam::123456789012:role/NAME, or arn:aws:iam::123456789012:user/NAME",
}


def wrong_identities(kind: str, said: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield each identity that a bucket of `kind` would not take, behind the field that says it."""
    for field, identities in said.items():
        for each in identities:
            if not IDENTITIES[kind].fullmatch(each):
                yield field, each


def check_people(kind: str, people: People) -> None:
    """
    Return if a bucket of `kind` takes every identity of `people`.

    Raises:
        SpecError: One it would not: every problem.
    """
    said = {
        "bastion": [people.bastion],
        "agents": people.agents,
        "admins": people.admins,
        **{f"pool_agents[{pool!r}]": each for pool, each in people.pool_agents.items()},
        **{f"users[{name!r}]": [identity] for name, identity in people.users.items()},
    }
    cloud = "s3://" if kind == "s3" else "gs://"
    problems = [
        f"people.{field}: {each!r} is no identity for {cloud}"
        for field, each in wrong_identities(kind, said)
    ]
    if problems:
        raise SpecError(*problems, hint=f"write it whole, as {EXAMPLES[kind]}")
