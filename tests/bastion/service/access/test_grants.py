"""Who may do what: no more than his part of the protocol needs."""

from __future__ import annotations

import pytest

from bastion.errors import SpecError
from bastion.records import layout
from bastion.service.access.grants import Grant, People, Right, grants, unknown
from bastion.service.access.place import place_of

PEOPLE = People(
    bastion="the-bastion", agents=("machines",), admins=("root",), users={"ann": "A", "ben": "B"}
)
MEMBERS = {"blue": ["ann", "ben"], "red": ["ann", "cat"]}
ALL = grants(PEOPLE, MEMBERS)


def may(principal: str, right: Right, key: str, given: tuple[Grant, ...] = ALL) -> bool:
    """Whether `principal` has `right` to the object at `key`."""
    return any(
        grant.principal == principal
        and grant.right in (right, Right.WRITE)
        and key.startswith(grant.prefix)
        for grant in given
    )


EVERY_KEY = {
    "request of ann in blue": layout.request("blue", "ann", "U", "launch"),
    "request of ann in red": layout.request("red", "ann", "U", "launch"),
    "request of ben in blue": layout.request("blue", "ben", "U", "launch"),
    "request of ben in red": layout.request("red", "ben", "U", "launch"),
    "bell": layout.bell("m", 1, 1),
    "claim": layout.claim("blue", "j", 1, "n", replica=0, host=0),
    "life": layout.life("m", 1),
    "log": layout.log("blue", "j", 1, replica=0, host=0, process=0) + "000000000000.log",
    "output in blue": layout.output_content("blue", "j", "d"),
    "output in red": layout.output_content("red", "j", "d"),
    "bundle": f"{layout.BUNDLES}packs/d",
    "spec": layout.spec("blue", "l"),
    "result": layout.result("blue", "j"),
    "answer": layout.answer("blue", "ann", "U"),
    "root": layout.ROOT,
    "events": layout.events(0),
    "view": layout.view("queue"),
    "quota": layout.QUOTA,
    "config": layout.CONFIG,
}
COMMON = {"log", "bundle", "spec", "result", "answer", "root", "events", "view", "quota"}
OUTPUTS = {"output in blue", "output in red"}
MAY = {
    ("A", Right.CREATE): {"request of ann in blue", "request of ann in red", "bundle"},
    ("B", Right.CREATE): {"request of ben in blue", "bundle"},
    ("A", Right.READ): {"request of ann in blue", "request of ann in red", *OUTPUTS, *COMMON},
    ("B", Right.READ): {"request of ben in blue", "output in blue", *COMMON},
    ("A", Right.WRITE): set(),
    ("machines", Right.CREATE): {"bell", "claim", "life", "log", *OUTPUTS},
    ("machines", Right.READ): {"bell", "claim", "life", "log", "spec", "bundle", *OUTPUTS},
    ("machines", Right.WRITE): set(),
    ("root", Right.WRITE): {"quota", "config"},
    ("root", Right.READ): set(EVERY_KEY),
    ("the-bastion", Right.WRITE): set(EVERY_KEY),
    ("cat", Right.READ): set(),
}


@pytest.mark.parametrize(("principal", "right"), MAY)
def test_nobody_may_do_more_than_his_part(principal: str, right: Right) -> None:
    """Of every kind of object, each may touch exactly what he needs."""
    found = {name for name, key in EVERY_KEY.items() if may(principal, right, key)}
    assert found == MAY[principal, right]


def test_who_has_no_identity_is_told() -> None:
    """Members without an identity get nothing, and are named."""
    assert unknown(PEOPLE, MEMBERS) == ("cat",)


def test_a_root_of_another_kind_is_refused() -> None:
    """The kind of bucket and the root's URL have to agree."""
    place = place_of("s3://bucket/some/folder?region_name=x", kind="s3")
    assert (place.bucket, place.folder) == ("bucket", "some/folder/")
    assert place_of("gs://bucket", kind="gs").folder == ""
    with pytest.raises(SpecError, match="is not in such a bucket, must be gs://bucket/folder"):
        place_of("file:///srv/bastion", kind="gs")
