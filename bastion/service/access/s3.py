"""
Rights and settings in terms of Amazon S3: one bucket policy.

The policy also enforces the protocol for every identity, including the bastion. Below create-only
prefixes a put without `If-None-Match` is denied. Where objects are replaced (root, views), a put
without any precondition is denied. Everywhere, a put is denied if the bastion could list but not
read its object: an object in an archive class, or with the writer's own key.

Every identity that can read can also list all names in the bucket. Without the right to list, S3
answers 403 instead of 404, and it grants that right only for a whole bucket. So the bucket should
hold nothing but Bastion.

Source: Amazon S3 User Guide, "Enforce conditional writes on Amazon S3 buckets", "GetObject"
(permissions), "Bucket policies" (20 KB); Service Authorization Reference, "Condition keys for
Amazon S3".
"""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from bastion.errors import SpecError, StoreError, StoreRefusedError
from bastion.records.keys import layout
from bastion.service.access.grants import Grant, Right
from bastion.service.access.place import Place
from bastion.store.network_fault import fault_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

POLICY_BYTES = 20 * 1024

Json = dict[str, Any]

_ACTIONS = {
    Right.READ: ["s3:GetObject"],
    Right.CREATE: ["s3:PutObject"],
    Right.WRITE: ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
}
_IF_NEW = "s3:if-none-match"
_IF_SAME = "s3:if-match"
_CLASS = "s3:x-amz-storage-class"
_OWN_KEYS = (
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
)
"""The condition keys of a put with the writer's own key; the bucket's default key sets none."""
_CREATE_ONLY = (
    layout.INBOX,
    layout.ANSWERS,
    layout.SPECS,
    layout.RESULTS,
    layout.RUNS,
    layout.BARRIERS,
    layout.MACHINES,
    layout.INSTRUCTIONS,
    layout.EVENTS,
    layout.SNAPSHOTS,
    layout.ASIDE,
    layout.OUTPUTS,
    layout.BUNDLES,
    layout.WHEELS,
    layout.HISTORY,
)
"""Prefixes below which no identity can replace an object."""
_REPLACED = (layout.ROOT, layout.VIEWS, layout.USAGE)


def statements(place: Place, grants: Iterable[Grant]) -> list[Json]:
    """Return the policy statements that give `grants` and enforce the preconditions."""
    by_prefix: dict[tuple[Right, str], list[str]] = defaultdict(list)
    principals: list[str] = []
    for grant in grants:
        found = by_prefix[grant.right, grant.prefix]
        found += [grant.principal] if grant.principal not in found else []
        principals += [grant.principal] if grant.principal not in principals else []
    prefixes: dict[tuple[Right, tuple[str, ...]], list[str]] = defaultdict(list)
    for (right, prefix), group in by_prefix.items():
        prefixes[right, tuple(group)].append(prefix)
    made = [_list(place, principals), *_enforced(place)]
    for (right, members), where in prefixes.items():
        made.append(_allow(place, right, members, where))
    base = sid_base(place)
    return [{"Sid": f"{base}{number}", **each} for number, each in enumerate(made)]


def sid_base(place: Place) -> str:
    """Return the prefix of this root's statement ids; it differs for another root in the bucket."""
    return f"Bastion{sha256(place.folder.encode()).hexdigest()[:8]}n"


def merged(policy: Json, place: Place, grants: Iterable[Grant]) -> Json:
    """
    Return `policy` with this root's statements replacing its earlier ones; others stay.

    Raises:
        SpecError: It would be larger than S3 allows.
    """
    base = sid_base(place)
    others = [s for s in policy.get("Statement", []) if not str(s.get("Sid", "")).startswith(base)]
    new = {
        "Version": "2012-10-17",
        **policy,
        "Statement": [*others, *statements(place, grants)],
    }
    size_bytes = len(json.dumps(new, separators=(",", ":")))
    if size_bytes > POLICY_BYTES:
        raise SpecError(
            f"the policy of s3://{place.bucket} would be {size_bytes} bytes, at most"
            f" {POLICY_BYTES} are allowed",
            hint="give each project a root in a bucket of its own, or name roles that users share",
        )
    return new


def lifecycle(place: Place) -> list[Json]:
    """Return rules that delete replaced versions and abandoned uploads, but no current object."""
    base = sid_base(place)
    return [
        {
            "ID": f"{base}{name}",
            "Status": "Enabled",
            "Filter": {"Prefix": place.folder + prefix},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
        }
        for name, prefix in (("state", layout.folder_of(layout.ROOT)), ("view", layout.VIEWS))
    ] + [
        {
            "ID": f"{base}parts",
            "Status": "Enabled",
            "Filter": {"Prefix": place.folder},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
        }
    ]


def commands(place: Place, grants: Iterable[Grant]) -> Iterator[str]:
    """Yield the shell commands for `aws` that set up a bucket without a policy and rules."""
    policy = json.dumps(merged({}, place, grants), indent=2)
    rules = json.dumps({"Rules": lifecycle(place)}, indent=2)
    yield f"cat > policy.json <<'END'\n{policy}\nEND"
    yield f"cat > lifecycle.json <<'END'\n{rules}\nEND"
    bucket = shlex.quote(place.bucket)
    yield (
        f"aws s3api put-public-access-block --bucket {bucket} --public-access-block-configuration"
        " BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,"
        "RestrictPublicBuckets=true"
    )
    yield f"aws s3api put-bucket-policy --bucket {bucket} --policy file://policy.json"
    yield (
        f"aws s3api put-bucket-lifecycle-configuration --bucket {bucket}"
        " --lifecycle-configuration file://lifecycle.json"
    )


def apply(place: Place, grants: Iterable[Grant], *, client: S3Client) -> Iterator[str]:
    """
    Apply the settings and `grants`, and yield one line for each change.

    Other statements in the policy and other lifecycle rules stay.

    Raises:
        SpecError: The policy would be larger than S3 allows.
        StoreRefusedError: Amazon refused: there is no such bucket, or the rights are missing.
        StoreError: Out of reach; run it again.
    """
    from botocore import exceptions

    wanted = tuple(grants)
    try:
        client.put_public_access_block(
            Bucket=place.bucket,
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": True,
                "IgnorePublicAcls": True,
                "BlockPublicPolicy": True,
                "RestrictPublicBuckets": True,
            },
        )
        yield f"s3://{place.bucket}: no public access"
        policy = merged(_current_policy(client, place.bucket), place, wanted)
        client.put_bucket_policy(Bucket=place.bucket, Policy=json.dumps(policy))
        yield f"s3://{place.bucket}: policy of {len(policy['Statement'])} statements"
        base = sid_base(place)
        others = [r for r in _current_rules(client, place.bucket) if not r["ID"].startswith(base)]
        rules: Any = [*others, *lifecycle(place)]
        client.put_bucket_lifecycle_configuration(
            Bucket=place.bucket, LifecycleConfiguration={"Rules": rules}
        )
        yield f"s3://{place.bucket}: {len(rules)} lifecycle rules"
    except exceptions.ClientError as error:
        raise StoreRefusedError(
            f"s3://{place.bucket}: {error}",
            hint="this needs s3:PutBucketPolicy, s3:PutLifecycleConfiguration and"
            " s3:PutBucketPublicAccessBlock, and the bucket must exist",
        ) from error
    except exceptions.NoCredentialsError as error:
        raise StoreRefusedError(
            f"s3://{place.bucket}: {error}", hint="run: aws configure"
        ) from error
    except exceptions.BotoCoreError as error:
        fault = fault_of(error, client.meta.endpoint_url, authorities="AWS_CA_BUNDLE")
        raise StoreError(f"s3://{place.bucket}: {fault.what}", hint=fault.hint) from error


def open_client(place: Place) -> S3Client:
    """Open a client for the bucket's endpoint, with this machine's credentials and settings."""
    import boto3

    session = boto3.session.Session()
    region = place.settings.get("region_name") or session.region_name or "us-east-1"
    return session.client(
        "s3", endpoint_url=place.settings.get("endpoint_url") or None, region_name=region
    )


def _list(place: Place, principals: list[str]) -> Json:
    return {
        "Effect": "Allow",
        "Principal": {"AWS": principals},
        "Action": "s3:ListBucket",
        "Resource": f"arn:aws:s3:::{place.bucket}",
    }


def _enforced(place: Place) -> list[Json]:
    denied = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject"}
    replaced = [each if each == layout.ROOT else f"{each}*" for each in _REPLACED]
    # This also denies multipart uploads, since parts have no precondition; Bastion uses none. Log
    # segments end in `.log`, samples in `.json.gz`; the tail of a bastion's own log ends in
    # neither, because it is replaced.
    ends = layout.command_end(f"{layout.LOGS}*/")
    logs = (f"{layout.LOGS}*.log", f"{layout.LOGS}*.json.gz", ends)
    created = [*(f"{prefix}*" for prefix in _CREATE_ONLY), *logs]
    return [
        *_secured(place),
        {
            **denied,
            "Resource": [_arn(place, name) for name in created],
            "Condition": {"Null": {_IF_NEW: "true"}},
        },
        {
            **denied,
            "Resource": [_arn(place, name) for name in replaced],
            "Condition": {"Null": {_IF_NEW: "true", _IF_SAME: "true"}},
        },
        *({**denied, "Resource": _arn(place, "*"), "Condition": each} for each in _unreadable()),
    ]


def _unreadable() -> Iterator[Json]:
    """Yield the conditions of a put whose object the bastion could list but not read."""
    # A "not" comparison also matches an absent key, so the second condition requires the key.
    yield {"StringNotEquals": {_CLASS: "STANDARD"}, "Null": {_CLASS: "false"}}
    for key in _OWN_KEYS:
        yield {"Null": {key: "false"}}


def _secured(place: Place) -> list[Json]:
    """Deny requests without TLS, unless the endpoint has no TLS."""
    if place.settings.get("endpoint_url", "").startswith("http://"):
        return []
    return [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": _arn(place, "*"),
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    ]


def _allow(place: Place, right: Right, members: tuple[str, ...], prefixes: list[str]) -> Json:
    allowed: Json = {
        "Effect": "Allow",
        "Principal": {"AWS": list(members)},
        "Action": _ACTIONS[right],
        "Resource": [_arn(place, f"{prefix}*") for prefix in prefixes],
    }
    if right is Right.CREATE:
        allowed["Condition"] = {"Null": {_IF_NEW: "false"}}
    return allowed


def _arn(place: Place, name: str) -> str:
    return f"arn:aws:s3:::{place.bucket}/{place.folder}{name}"


def _current_policy(client: S3Client, bucket: str) -> Json:
    from botocore.exceptions import ClientError

    try:
        policy: Json = json.loads(client.get_bucket_policy(Bucket=bucket)["Policy"])
    except ClientError as error:
        if error.response["Error"].get("Code") == "NoSuchBucketPolicy":
            return {}
        raise
    return policy


def _current_rules(client: S3Client, bucket: str) -> list[Any]:
    from botocore.exceptions import ClientError

    try:
        return list(client.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"])
    except ClientError as error:
        if error.response["Error"].get("Code") == "NoSuchLifecycleConfiguration":
            return []
        raise
