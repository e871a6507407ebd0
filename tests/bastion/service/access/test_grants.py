"""Permissions: no identity has more than its part of the protocol needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from bastion.errors import SpecError
from bastion.records.keys import layout
from bastion.service.access.grants import Right, grants, may, unknown
from bastion.service.access.place import place_of
from tests.bastion.service.access.people import (
    EVERY_KEY,
    MAY,
    MEMBERS,
    PEOPLE,
)

ALL = grants(PEOPLE, MEMBERS)


WIDER = {
    "logs/_bastion/<bastion>/all/<n>.log",
    "logs/_bastion/<bastion>/tail",
    "logs/<name>-bastion",
}
"""What agents could create although only the bastion should: a permission covers a prefix."""
CREATORS = {
    "users": {"A", "B"},
    "agents": {"machines"},
    "admins": {"root"},
    "bastion": set(),
    "write-once:": {"machines"},
}
"""By the writer of a kind of object in `layout`: which other identities can create it."""


def drawn() -> Iterator[tuple[str, str]]:
    """Yield every kind of key in the diagram of `layout`, and its writer."""
    for line in (layout.__doc__ or "").splitlines():
        row = re.fullmatch(rf" {{6}}([a-z](?:<[^>]*>|\S|, )*) +({'|'.join(CREATORS)}) .*", line)
        if row is not None:
            yield from ((path, row[2]) for path in row[1].split(", "))


def keys_of(path: str) -> list[str]:
    """Return those of `EVERY_KEY` that are of the kind shown as `path`."""
    pattern = re.sub(r"<[^>]*>", "[^/]+", path.replace(".", r"\."))
    pattern = pattern.replace(r"state/aside/[^/]+", "state/aside/.+")
    return [key for key in EVERY_KEY.values() if re.fullmatch(pattern, key)]


def test_every_kind_of_key_is_checked() -> None:
    """The tables here have exactly the keys in the diagram of `layout`."""
    found = [keys_of(path) for path, _ in drawn()]
    assert all(found)
    assert {key for keys in found for key in keys} == set(EVERY_KEY.values())


@pytest.mark.parametrize(("path", "writer"), list(drawn()))
def test_only_the_writer_and_the_bastion_may_create_an_object(path: str, writer: str) -> None:
    """The writer of each kind of object can create it; the bastion can do anything."""
    for key in keys_of(path):
        able = {
            each for each in ("A", "B", "machines", "root") if may(ALL, each, Right.CREATE, key)
        }
        wanted = CREATORS[writer] | ({"machines"} if path in WIDER else set())
        if key.startswith(layout.INBOX) and writer == "users":
            wanted = {"A"} if "/ann/" in key else {"B"} if "/blue/ben/" in key else set()
            wanted = {"root"} if key.startswith(layout.ADMINS) else wanted
        assert able == wanted


@pytest.mark.parametrize(("principal", "right"), MAY)
def test_every_identity_has_least_privilege(principal: str, right: Right) -> None:
    """An identity has exactly the permissions that it needs, on every kind of object."""
    found = {name for name, key in EVERY_KEY.items() if may(ALL, principal, right, key)}
    assert found == MAY[principal, right]


def test_members_without_an_identity_are_named() -> None:
    """They get no permission."""
    assert unknown(PEOPLE, MEMBERS) == ("cat",)


def test_a_root_of_another_kind_is_refused() -> None:
    """The kind of bucket and the root's URL must agree."""
    place = place_of("s3://bucket/some/folder?region_name=x", kind="s3")
    assert (place.bucket, place.folder) == ("bucket", "some/folder/")
    assert place_of("gs://bucket", kind="gs").folder == ""
    with pytest.raises(SpecError, match="is not in such a bucket, must be gs://bucket/folder"):
        place_of("file:///srv/bastion", kind="gs")
