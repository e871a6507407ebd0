"""Identities as a bucket's policy takes them: clouds reject another cloud's identities too late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bastion.errors import SpecError
from bastion.service.access.grants import People
from quota.pattern import pattern

IDENTITIES = {
    "gs": pattern(r"(user|serviceAccount|group|domain):.+|(principal|principalSet)://.+"),
    "s3": pattern(r"arn:.+|[0-9]{12}"),
    "az": pattern(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[^@\s:]+@[^@\s:]+"),
}
"""By the kind of a root. Source: Google's IAM principals, Amazon's, and Azure's."""
EXAMPLES = {
    "gs": "serviceAccount:NAME@PROJECT.iam.gserviceaccount.com, or user:NAME@example.com",
    "s3": "arn:aws:iam::123456789012:role/NAME, or arn:aws:iam::123456789012:user/NAME",
    "az": "an object id such as 8f14e45f-ceea-467f-a9d1-c2b2d7a0b1c3, or NAME@example.com",
}


def wrong_identities(kind: str, said: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield each identity that a bucket of `kind` would not accept, after the name of its field."""
    for field, identities in said.items():
        for each in identities:
            if not IDENTITIES[kind].fullmatch(each):
                yield field, each


def check_people(kind: str, people: People) -> None:
    """
    Check that a bucket of `kind` accepts every identity of `people`.

    Raises:
        SpecError: It would not accept some; all of them are listed.
    """
    said = {
        "bastion": [people.bastion],
        "agents": people.agents,
        "admins": people.admins,
        **{f"pool_agents[{pool!r}]": each for pool, each in people.pool_agents.items()},
        **{f"users[{name!r}]": [identity] for name, identity in people.users.items()},
    }
    problems = [
        f"people.{field}: {each!r} is no identity for {kind}://"
        for field, each in wrong_identities(kind, said)
    ]
    if problems:
        raise SpecError(*problems, hint=f"write it whole, as {EXAMPLES[kind]}")
