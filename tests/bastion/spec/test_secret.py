"""How a launch refers to a secret, and what is refused on the user's machine."""

from __future__ import annotations

import pytest

from bastion.errors import SpecError
from bastion.records.coding.codec import decode, encode
from bastion.records.requests.launch_request import LaunchRequest
from bastion.spec import Job, Launch, Process, Secret, secret_of
from tests.bastion.spec.problems import problems

GOOD = (
    "",
    "env:HF_TOKEN",
    "file:vision/hf",
    "file:a..b/.c",
    "gcp:projects/acme/secrets/hf",
    "gcp:projects/acme/secrets/hf/versions/7",
    "gcp:projects/example.com:acme/secrets/hf_1/versions/latest",
    "aws:prod/hf",
    "azure:lab-vault/hf-token",
    "azure:lab.vault.azure.cn/hf/0123456789abcdef0123456789abcdef",
    "aws:arn:aws:secretsmanager:us-east-1:123456789012:secret:hf-AbCdEf",
)
BAD = (
    "hf",
    "vault:hf",
    "env:",
    "env:A-B",
    "file:",
    "file:/etc/shadow",
    "file:../x",
    "file:a/../b",
    "file:a/./b",
    "file:a//b",
    "file:a/",
    "file:..",
    "gcp:hf",
    "gcp:projects/a/secrets/b/versions/1:destroy",
    "gcp:projects/a/secrets/b?alt=media",
    "gcp:projects/a/secrets/../../b",
    "aws:a b",
    "azure:lab",
    "azure:lab/hf/latest",
    "aws:",
)


@pytest.mark.parametrize("source", GOOD)
def test_a_source_travels_whole(source: str) -> None:
    """A stored launch returns a secret as it was written, with its source."""
    secret = Secret("HF_TOKEN", source=source, file=True)
    job = Job(processes=(Process(["a"], secrets=[secret]),), secrets=[Secret("OTHER")])
    sent = LaunchRequest(launch=Launch(name="x", jobs=[job]))
    assert decode(LaunchRequest, encode(sent), key="k") == sent
    assert secret_of(f"A={source}" if source else "A") == Secret("A", source=source)


@pytest.mark.parametrize("source", BAD)
def test_a_source_that_could_lead_astray_is_refused(source: str) -> None:
    """An invalid source, or one that leaves its place, is refused with what is allowed."""
    (problem,) = problems(Secret, name="A", source=source)
    assert problem.startswith(f"source: {source!r} is not ")


@pytest.mark.parametrize("name", ["", "A-B", "1A", "BASTION_X", "A B"])
def test_a_secret_has_the_name_of_a_variable(name: str) -> None:
    """A name that no variable can have, or that is the bastion's, is refused."""
    assert problems(Secret, name=name)


def test_one_name_means_one_value() -> None:
    """A variable is a secret from one place, or plain; never both in one job."""
    one, other = Secret("A", source="env:A"), Secret("A", source="env:B")
    two = "secrets.A: asked for from two sources; name one"
    both = "secrets.A: env sets this variable too; take one out"
    echo = Process(["a"])
    assert problems(Process, command=["a"], secrets=[one, other]) == (two,)
    assert problems(Process, command=["a"], secrets=[one], env={"A": "x"}) == (both,)
    assert problems(
        Job, processes=[Process(["a"], secrets=[one]), Process(["b"], secrets=[other])]
    ) == (two,)
    assert problems(Job, processes=[echo], secrets=[one], env={"A": "x"}) == (both,)
    assert problems(Job, processes=[Process(["a"], env={"A": "x"})], secrets=[one]) == (both,)
    assert problems(Process, command=["a"], secrets=["A"]) == ("secrets[0]: 'A' is not a Secret",)


def test_a_job_knows_each_of_its_secrets_once() -> None:
    """Secrets of a job and its processes are requested once, as a file if any needs one."""
    job = Job(
        processes=[Process(["a"], secrets=[Secret("A", file=True), Secret("B")])],
        secrets=[Secret("A")],
    )
    assert job.every_secret == (Secret("A", file=True), Secret("B"))


def test_a_written_secret_says_where_or_nothing() -> None:
    """`NAME=` with an empty value is an error, not a default."""
    with pytest.raises(SpecError, match="source: empty in 'A='"):
        secret_of("A=")
