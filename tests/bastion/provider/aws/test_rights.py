"""The permissions that the guide gives to a bastion."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bastion.account.amazon import machines_policy
from bastion.provider.aws import ec2

REPOSITORY = Path(__file__).parents[4]


def test_the_guide_grants_what_is_called_and_no_more() -> None:
    """The policy in the guide has every EC2 action that the provider calls, and tagging."""
    page = (REPOSITORY / "docs/guides/run-on-aws.md").read_text()
    policy = json.loads(page.partition("```json\n")[2].partition("```")[0])
    assert policy == machines_policy(["arn:aws:iam::*:role/bastion-gpu"])
    actions: set[str] = set()
    for statement in policy["Statement"]:
        said = statement["Action"]
        actions |= {said} if isinstance(said, str) else set(said)
    source = Path(ec2.__file__).read_text()
    called = {
        "ec2:" + "".join(word.capitalize() for word in name.split("_"))
        for name in re.findall(r'"((?:describe|run|start|terminate)_\w+)"', source)
    }
    assert len(called) == 6
    assert actions == called | {"ec2:CreateTags", "iam:PassRole"}
