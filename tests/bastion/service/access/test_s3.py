"""Permissions at Amazon: one policy that also enforces the protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from bastion.errors import SpecError, StoreRefusedError
from bastion.records.keys import layout
from bastion.service.access import s3
from bastion.service.access.grants import People, Right, grants
from bastion.service.access.place import Place, place_of
from tests.bastion.service.access.people import EVERY_KEY, MAY, MEMBERS
from tests.servers.s3 import credentials, make_bucket, moto_server

ACCOUNT = "arn:aws:iam::123456789012"
NAMES = {
    "A": f"{ACCOUNT}:user/ann",
    "B": f"{ACCOUNT}:user/ben",
    "machines": f"{ACCOUNT}:role/machines",
    "gpus": f"{ACCOUNT}:role/gpus",
    "gps": f"{ACCOUNT}:role/gps",
    "root": f"{ACCOUNT}:user/root",
    "the-bastion": f"{ACCOUNT}:role/bastion",
    "cat": f"{ACCOUNT}:user/cat",
}
PLACE = Place(bucket="bucket", folder="some/bastion/", settings={})
GRANTS = grants(
    People(
        bastion=NAMES["the-bastion"],
        agents=(NAMES["machines"],),
        pool_agents={"gpu": (NAMES["gpus"],), "gp": (NAMES["gps"],)},
        admins=(NAMES["root"],),
        users={"ann": NAMES["A"], "ben": NAMES["B"]},
    ),
    MEMBERS,
)
POLICY = s3.merged({}, PLACE, GRANTS)

IF_NEW = {"s3:if-none-match": "*"}
IF_SAME = {"s3:if-match": "tag"}


def allows(caller: str, action: str, key: str, headers: Mapping[str, str]) -> bool:
    """Return Amazon's decision: a deny wins over an allow, and the default is to deny."""
    effects = {
        statement["Effect"]
        for statement in POLICY["Statement"]
        if _matches(statement, caller, action, f"arn:aws:s3:::bucket/some/bastion/{key}", headers)
    }
    return effects == {"Allow"}


def _matches(
    statement: Mapping[str, Any], caller: str, action: str, arn: str, headers: Mapping[str, str]
) -> bool:
    principal = statement["Principal"]
    actions, resources = statement["Action"], statement["Resource"]
    conditions = {"Null": {}, "Bool": {}, "StringNotEquals": {}, **statement.get("Condition", {})}
    assert set(conditions) == {"Null", "Bool", "StringNotEquals"}
    unequal = conditions["StringNotEquals"]
    sent = {"aws:SecureTransport": "true", **headers}
    return (
        (principal == "*" or caller in principal["AWS"])
        and (actions == "s3:*" or action in ([actions] if isinstance(actions, str) else actions))
        and any(
            re.fullmatch(re.escape(each).replace(r"\*", ".*"), arn)
            for each in ([resources] if isinstance(resources, str) else resources)
        )
        and all((name not in headers) == (v == "true") for name, v in conditions["Null"].items())
        and all(headers.get(name) != v for name, v in unequal.items())
        and all(sent[name] == v for name, v in conditions["Bool"].items())
    )


def test_nothing_is_read_or_written_without_tls() -> None:
    """Requests without TLS are denied, except at an endpoint that has none."""
    bare = {"aws:SecureTransport": "false"}
    bastion = NAMES["the-bastion"]
    assert allows(bastion, "s3:GetObject", "state/root.json", {})
    assert not allows(bastion, "s3:GetObject", "state/root.json", bare)
    assert not allows(bastion, "s3:PutObject", "state/root.json", {**IF_SAME, **bare})
    near = Place(bucket="bucket", folder="", settings={"endpoint_url": "http://[::1]:9000"})
    assert "SecureTransport" not in str(s3.merged({}, near, GRANTS))


@pytest.mark.parametrize(("principal", "right"), MAY)
def test_the_policy_is_the_grants(principal: str, right: Right) -> None:
    """For every kind of object, the policy allows what the grants say, and nothing else."""
    caller = NAMES[principal]
    requests = {
        Right.READ: ("s3:GetObject", {}),
        Right.CREATE: ("s3:PutObject", IF_NEW),
        Right.WRITE: ("s3:DeleteObject", {}),
    }
    action, headers = requests[right]
    found = {name for name, key in EVERY_KEY.items() if allows(caller, action, key, headers)}
    assert found == MAY[principal, right]


OVERWRITTEN = {
    *("quota", "config", "inventory of hosts"),
    *("its tail", "the tail of one with a VM"),
}
REPLACED = {"root", "view", "use of a machine", *OVERWRITTEN}


@pytest.mark.parametrize("name", EVERY_KEY)
def test_every_write_needs_a_precondition(name: str) -> None:
    """Not even the bastion replaces create-only objects, or root and views unconditionally."""
    bastion, key = NAMES["the-bastion"], EVERY_KEY[name]
    assert allows(bastion, "s3:PutObject", key, IF_NEW)
    assert allows(bastion, "s3:PutObject", key, IF_SAME) == (name in REPLACED)
    assert allows(bastion, "s3:PutObject", key, {}) == (name in OVERWRITTEN)


UNREADABLE = {
    "an archive class": {"s3:x-amz-storage-class": "GLACIER"},
    "a key in the request": {"s3:x-amz-server-side-encryption-customer-algorithm": "AES256"},
    "a key of the writer's": {"s3:x-amz-server-side-encryption-aws-kms-key-id": "arn:aws:kms:x"},
}


@pytest.mark.parametrize("headers", UNREADABLE.values(), ids=UNREADABLE)
def test_nothing_is_written_that_the_bastion_could_not_read(headers: Mapping[str, str]) -> None:
    """A put into an archive class, or with the writer's own key, is denied to every identity."""
    inbox = layout.request("red", "ann", "0" * 26, "cancel")
    for caller, key in ((NAMES["A"], inbox), (NAMES["the-bastion"], layout.ROOT)):
        assert allows(caller, "s3:PutObject", key, IF_NEW)
        assert not allows(caller, "s3:PutObject", key, {**IF_NEW, **headers})


def test_the_standard_class_may_be_named() -> None:
    """A put that names the default class is allowed."""
    headers = {**IF_NEW, "s3:x-amz-storage-class": "STANDARD"}
    assert allows(NAMES["the-bastion"], "s3:PutObject", layout.ROOT, headers)


def test_the_right_to_read_includes_the_right_to_list() -> None:
    """Without it, a read of an absent object gets 403, and polling does not work."""
    (listing,) = [s for s in POLICY["Statement"] if s["Action"] == "s3:ListBucket"]
    assert set(listing["Principal"]["AWS"]) == set(NAMES.values()) - {NAMES["cat"]}
    assert "Condition" not in listing


def test_a_policy_that_amazon_would_not_take_is_refused() -> None:
    """More users than fit in one policy are an error, with a hint."""
    users = {f"user{number}": f"{ACCOUNT}:user/user{number}" for number in range(300)}
    many = grants(People(bastion="b", users=users), {"blue": list(users)})
    with pytest.raises(SpecError, match="bytes, at most 20480 are allowed"):
        s3.merged({}, PLACE, many)


def test_statements_of_others_stay() -> None:
    """Statements of another root, and foreign ones, are kept; our earlier ones are replaced."""
    theirs = {"Sid": "Theirs", "Effect": "Deny"}
    nameless = {"Effect": "Deny"}
    ours = {"Sid": f"{s3.sid_base(PLACE)}99", "Effect": "Allow"}
    other = Place(bucket="bucket", folder="other/", settings={})
    policy = s3.merged({"Id": "x", "Statement": [theirs, nameless, ours]}, other, GRANTS)
    policy = s3.merged(policy, PLACE, GRANTS)
    assert policy["Id"] == "x"
    assert policy["Statement"][:2] == [theirs, nameless]
    assert ours not in policy["Statement"]
    sids = [str(statement.get("Sid")) for statement in policy["Statement"]]
    assert len(sids) == len(set(sids)) == 2 + 2 * len(POLICY["Statement"])
    assert all(re.fullmatch("[A-Za-z0-9]+", sid) for sid in sids)


@pytest.fixture
def amazon() -> Iterator[Place]:
    """Provide a bucket in moto."""
    with moto_server() as url, credentials():
        make_bucket("bucket")
        yield place_of(f"s3://bucket/some/bastion?endpoint_url={url}", kind="s3")


def test_it_is_done_and_can_be_done_twice(amazon: Place) -> None:
    """It sets policy, rules and the block of public access; running it twice changes nothing."""
    client = s3.open_client(amazon)
    client.put_bucket_lifecycle_configuration(
        Bucket="bucket",
        LifecycleConfiguration={
            "Rules": [
                {
                    "ID": "t",
                    "Status": "Enabled",
                    "Filter": {"Prefix": "x"},
                    "Expiration": {"Days": 1},
                }
            ]
        },
    )
    for _ in range(2):
        told = list(s3.apply(amazon, GRANTS, client=client))
        assert len(told) == 3
        assert json.loads(client.get_bucket_policy(Bucket="bucket")["Policy"]) == s3.merged(
            {}, amazon, GRANTS
        )
        rules = client.get_bucket_lifecycle_configuration(Bucket="bucket")["Rules"]
        assert rules[0]["ID"] == "t"
        assert len(rules) == 4
    block = client.get_public_access_block(Bucket="bucket")["PublicAccessBlockConfiguration"]
    assert all(block.values())


def test_a_missing_bucket_is_an_error(amazon: Place) -> None:
    """The error has Amazon's own words, and says what to do."""
    missing = Place(bucket="missing", folder="", settings=amazon.settings)
    with pytest.raises(StoreRefusedError, match="NoSuchBucket") as told:
        list(s3.apply(missing, GRANTS, client=s3.open_client(missing)))
    assert "s3:PutBucketPolicy" in told.value.hint


def test_the_commands_carry_the_policy() -> None:
    """The policy is a here-document of the shell, with the same bytes."""
    lines = list(s3.commands(PLACE, GRANTS))
    document = lines[0].removeprefix("cat > policy.json <<'END'\n").removesuffix("\nEND")
    assert json.loads(document) == POLICY
    assert "aws s3api put-bucket-policy --bucket bucket --policy file://policy.json" in lines
