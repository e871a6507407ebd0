"""
An account at Amazon: the bucket, roles with instance profiles, and permission to create machines.

Only EC2 can assume a role. The bastion's role has one policy, `bastion-machines`: it creates
instances only with its tag, terminates and starts only those with the tag, and passes on only the
machines' roles.

Source: IAM User Guide, "Use an IAM role to grant permissions to applications running on Amazon EC2
instances"; Service Authorization Reference, "Actions, resources, and condition keys for EC2".
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from bastion.account.needs import Needs, Step
from bastion.provider.aws.calls import call
from bastion.value import value

POLICY = "bastion-machines"
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}):role/([\w+=,.@-]{1,64})")
_ASSUMED = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "ec2.amazonaws.com"},
        }
    ],
}
Json = dict[str, Any]


def steps(needs: Needs) -> Iterator[Step]:
    """Yield what is required, in the order in which it can be created."""
    if needs.location:
        yield Bucket(name=needs.bucket, region=needs.location, endpoint_url=needs.endpoint_url)
    roles = [found for each in (needs.bastion, *needs.agents) if (found := _ROLE.fullmatch(each))]
    for role in roles:
        yield Role(name=role[2])
    if "ec2" in needs.providers and (own := _ROLE.fullmatch(needs.bastion)):
        passed = [role[0] for role in roles if role[0] != needs.bastion]
        yield Policy(role=own[2], document=machines_policy(passed))


def machines_policy(roles: Iterable[str]) -> Json:
    """Return the policy of a bastion that creates instances; it passes on `roles` (ARNs)."""
    passed = list(roles)
    statements: list[Json] = [
        {
            "Sid": "Look",
            "Effect": "Allow",
            "Action": ["ec2:DescribeInstances", "ec2:DescribeImages", "ec2:DescribeSubnets"],
            "Resource": "*",
        },
        {
            "Sid": "MakeOnlyWithOurTag",
            "Effect": "Allow",
            "Action": "ec2:RunInstances",
            "Resource": [
                "arn:aws:ec2:*:*:instance/*",
                "arn:aws:ec2:*:*:volume/*",
                "arn:aws:ec2:*:*:network-interface/*",
                "arn:aws:ec2:*:*:spot-instances-request/*",
            ],
            "Condition": {"Null": {"aws:RequestTag/bastion": "false"}},
        },
        {
            "Sid": "MakeFromWhatThereIs",
            "Effect": "Allow",
            "Action": "ec2:RunInstances",
            "Resource": [
                "arn:aws:ec2:*::image/*",
                "arn:aws:ec2:*:*:subnet/*",
                "arn:aws:ec2:*:*:security-group/*",
                "arn:aws:ec2:*:*:key-pair/*",
                "arn:aws:ec2:*:*:placement-group/*",
                "arn:aws:ec2:*:*:capacity-reservation/*",
                "arn:aws:resource-groups:*:*:group/*",
            ],
        },
        {
            "Sid": "TagOnlyWhatIsMade",
            "Effect": "Allow",
            "Action": "ec2:CreateTags",
            "Resource": "arn:aws:ec2:*:*:*/*",
            "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}},
        },
        {
            "Sid": "EndAndStartOnlyOurs",
            "Effect": "Allow",
            "Action": ["ec2:TerminateInstances", "ec2:StartInstances"],
            "Resource": "arn:aws:ec2:*:*:instance/*",
            "Condition": {"Null": {"aws:ResourceTag/bastion": "false"}},
        },
    ]
    if passed:
        statements.append(
            {
                "Sid": "GiveThemTheirRole",
                "Effect": "Allow",
                "Action": "iam:PassRole",
                "Resource": passed,
                "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
            }
        )
    return {"Version": "2012-10-17", "Statement": statements}


@value
class Bucket:
    """A bucket, with the settings of `bastion/service/access`."""

    name: str
    region: str
    endpoint_url: str = ""

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`."""
        bucket = shlex.quote(self.name)
        return (
            f"aws s3api head-bucket --bucket={bucket} >/dev/null 2>&1 ||"
            f" aws s3 mb s3://{bucket} --region={self.region}",
        )

    def take(self) -> str:
        """See `Step`."""
        client, what = _client("s3", self.region, self.endpoint_url), f"bucket s3://{self.name}"
        if call(client, "head_bucket", what, but=("404", "NoSuchBucket"), Bucket=self.name):
            return ""
        # Amazon refuses the name of its first region but accepts all others.
        place = {"LocationConstraint": self.region}
        given: Json = {} if self.region == "us-east-1" else {"CreateBucketConfiguration": place}
        call(client, "create_bucket", what, Bucket=self.name, **given)
        return f"made bucket s3://{self.name} in {self.region}"


@value
class Role:
    """A role that EC2 assumes, with an instance profile of the same name."""

    name: str

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`."""
        name, assumed = self.name, shlex.quote(json.dumps(_ASSUMED))
        return (
            f"aws iam get-role --role-name={name} >/dev/null 2>&1 || aws iam create-role"
            f" --role-name={name} --assume-role-policy-document={assumed}",
            f"aws iam get-instance-profile --instance-profile-name={name} >/dev/null 2>&1 ||"
            f" {{ aws iam create-instance-profile --instance-profile-name={name} &&"
            f" aws iam add-role-to-instance-profile --instance-profile-name={name}"
            f" --role-name={name}; }}",
        )

    def take(self) -> str:
        """See `Step`."""
        client, name, what = _client("iam"), self.name, f"role {self.name}"
        gone = ("NoSuchEntity",)
        made = []
        if not call(client, "get_role", what, but=gone, RoleName=name):
            document = json.dumps(_ASSUMED)
            call(client, "create_role", what, RoleName=name, AssumeRolePolicyDocument=document)
            made.append("role")
        shown = call(client, "get_instance_profile", what, but=gone, InstanceProfileName=name)
        if not shown:
            call(client, "create_instance_profile", what, InstanceProfileName=name)
            made.append("instance profile")
        if not (shown and shown["InstanceProfile"]["Roles"]):
            call(
                client,
                "add_role_to_instance_profile",
                what,
                InstanceProfileName=name,
                RoleName=name,
            )
        return f"made {' and '.join(made)} {name}" if made else ""


@value
class Policy:
    """The policy of the bastion's role."""

    role: str
    document: Json

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`."""
        text = json.dumps(self.document, indent=2)
        return (
            f"cat > machines.json <<'END'\n{text}\nEND",
            f"aws iam put-role-policy --role-name={self.role} --policy-name={POLICY}"
            " --policy-document=file://machines.json",
        )

    def take(self) -> str:
        """See `Step`."""
        client, what = _client("iam"), f"policy {POLICY} of role {self.role}"
        named: Json = {"RoleName": self.role, "PolicyName": POLICY}
        shown = call(client, "get_role_policy", what, but=("NoSuchEntity",), **named)
        if shown and _document(shown["PolicyDocument"]) == self.document:
            return ""
        text = json.dumps(self.document)
        call(client, "put_role_policy", what, **named, PolicyDocument=text)
        return f"{what}: {len(self.document['Statement'])} statements"


def _document(shown: Any) -> Any:
    """Return a policy as its client has decoded it, or URL-quoted as the API writes it."""
    return json.loads(unquote(shown)) if isinstance(shown, str) else shown


def _client(service: str, region: str = "us-east-1", endpoint_url: str = "") -> Any:
    """Return a client with the credentials of this machine or user; IAM has no regions."""
    import boto3

    session = boto3.session.Session()
    return session.client(service, region_name=region, endpoint_url=endpoint_url or None)  # type: ignore[call-overload]
