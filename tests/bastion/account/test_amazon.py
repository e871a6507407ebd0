"""An Amazon account gets what a bastion needs, once, with moto's IAM and S3."""

from __future__ import annotations

import json
from collections.abc import Iterator

import boto3
import pytest

from bastion.account import amazon
from bastion.account.needs import Needs
from tests.servers.s3 import credentials, moto_server

ROLE = "arn:aws:iam::123456789012:role/"
NEEDS = Needs(
    bucket="acme-bastions",
    location="eu-central-1",
    bastion=f"{ROLE}bastion",
    agents=(f"{ROLE}bastion-gpu",),
    providers=("ec2",),
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run an empty account."""
    with moto_server() as url, credentials():
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        yield url


def taken() -> list[str]:
    """Return what was done, step by step."""
    return [done for step in amazon.steps(NEEDS) if (done := step.take())]


def test_everything_is_made_once(server: str) -> None:
    """The second run changes nothing; instances can have the roles, and pass them on."""
    assert taken() == [
        "made bucket s3://acme-bastions in eu-central-1",
        "made role and instance profile bastion",
        "made role and instance profile bastion-gpu",
        "policy bastion-machines of role bastion: 6 statements",
    ]
    assert taken() == []
    iam = boto3.client("iam", region_name="us-east-1")
    for name in ("bastion", "bastion-gpu"):
        profile = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
        assert [role["RoleName"] for role in profile["Roles"]] == [name]
    found = iam.get_role_policy(RoleName="bastion", PolicyName=amazon.POLICY)["PolicyDocument"]
    assert found == amazon.machines_policy([f"{ROLE}bastion-gpu"])


def test_a_policy_of_another_time_is_replaced(server: str) -> None:
    """The next run allows passing on the role of a new pool."""
    taken()
    iam = boto3.client("iam", region_name="us-east-1")
    old = json.dumps(amazon.machines_policy([]))
    iam.put_role_policy(RoleName="bastion", PolicyName=amazon.POLICY, PolicyDocument=old)
    assert taken() == ["policy bastion-machines of role bastion: 6 statements"]


def test_the_commands_do_the_same() -> None:
    """Each checks before it creates, so all of them can be repeated; no login is needed."""
    commands = [line for step in amazon.steps(NEEDS) for line in step.commands]
    assert [" ".join(line.split()[:3]) for line in commands] == [
        "aws s3api head-bucket",
        "aws iam get-role",
        "aws iam get-instance-profile",
        "aws iam get-role",
        "aws iam get-instance-profile",
        "cat > machines.json",
        "aws iam put-role-policy",
    ]
