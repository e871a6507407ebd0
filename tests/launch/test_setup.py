"""The output of `bastion setup`, and its requirements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bastion.records.keys import layout
from bastion.store.s3 import S3Store
from tests.launch.command_line import Run
from tests.servers.s3 import credentials, make_bucket, moto_server

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 8
[project_membership]
blue = ["ada", "ben", "intern-.*"]
[project_resources.blue]
h100 = 1.0
"""
B = "user:b@x.org"
WHO = (f"--bastion_account={B}", "--users=user:{}@x.org", "--user=intern-1=user:one@x.org")
AWS = "arn:aws:iam::123456789012"
WHO_S3 = (f"--bastion_account={AWS}:role/b", f"--users={AWS}:user/{{}}")


@pytest.fixture
def quota(tmp_path: Path) -> str:
    """Return a quota file of two named users and some that match an expression."""
    path = tmp_path / "quota.toml"
    path.write_text(QUOTA)
    return f"--quota={path}"


def test_it_prints_what_a_shell_would_do(run: Run, quota: str) -> None:
    """There is one gcloud command per line on stdout, for every user in the quota file."""
    ran = run("setup", "gcs", "--root=gs://bucket/b", quota, *WHO)
    assert (ran.code, ran.err) == (0, "")
    for user, identity in (("ada", "ada"), ("ben", "ben"), ("intern-1", "one")):
        assert (
            f"add-iam-policy-binding gs://bucket/b/inbox/blue/{user}/"
            f" --member=user:{identity}@x.org --role=roles/storage.objectCreator\n"
        ) in ran.out
    shown = json.loads(run("setup", "gcs", "--root=gs://bucket/b", quota, *WHO, "--json").out)
    assert {"role": "bastion", "principal": B, "right": "write", "prefix": ""} in shown["grants"]
    assert shown["commands"] == ran.out.splitlines()


def test_a_user_without_an_identity_is_told(run: Run, quota: str) -> None:
    """A user who gets no permissions is named, with the flag that changes it."""
    who = (*WHO_S3[:1], f"--user=ada={AWS}:user/ada")
    ran = run("setup", "s3", "--root=s3://bucket/b", quota, *who)
    assert ran.code == 0
    assert ran.err == "ben gets no permissions: add --users, or --user=ben=IDENTITY\n"


def test_webhooks_that_every_user_can_read_are_told(run: Run, quota: str) -> None:
    """If the configuration has a webhook's URL, it is named when permissions are granted."""
    text = "[webhooks.team]\nurl = 'https://x.org/s3cret'\n[webhooks.ops]\nurl_file = '/etc/ops'\n"
    with moto_server() as url, credentials():
        make_bucket("bucket")
        S3Store("bucket", "b", endpoint_url=url).create(layout.CONFIG, text.encode())
        ran = run(
            "setup", "s3", f"--root=s3://bucket/b?endpoint_url={url}", quota, *WHO_S3, "--apply"
        )
    assert ran.code == 0
    assert "webhook team: every user can read its url" in ran.err
    assert "ops" not in ran.err
    assert "s3cret" not in ran.err


def test_it_does_it(run: Run, quota: str) -> None:
    """With --apply there is nothing on stdout, and the changes are reported."""
    with moto_server() as url, credentials():
        make_bucket("bucket")
        root = f"--root=s3://bucket/b?endpoint_url={url}"
        ran = run("setup", "s3", root, quota, *WHO_S3, "--apply")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines()[-1] == "s3://bucket: 3 lifecycle rules"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["gcs", "--root=gs://b/x"], "--bastion_account is missing"),
        (["gcs", "--root=s3://b/x", *WHO], "root 's3://b/x': is not in such a bucket, must be gs:"),
        (["gcs", "--root=gs://b/x", *WHO[:1], "--users=ada"], "--users: 'ada' has no {}"),
        (["gcs", "--root=gs://b/x", *WHO[:1], "--user=ada"], "--user: 'ada' is not NAME=IDENTITY"),
        (
            ["gcs", "--root=gs://b/x", "--bastion_account=b@p.iam"],
            "--bastion_account: 'b@p.iam' is",
        ),
        (["gcs", "--root=gs://b/x", *WHO, "--admin=ada@x.org"], "--admin: 'ada@x.org' is not"),
        (["gcs", "--root=gs://b/x", *WHO, "--agent_account=gpu=G"], "--agent_account: 'G' is not"),
        (
            ["s3", "--root=s3://b/x", *WHO],
            f"--bastion_account: {B!r} is not an identity for setup s3",
        ),
        (["s3", "--root=s3://b/x", *WHO_S3[:1], "--users=user:{}"], "--users: 'user:{}' is no"),
        (["s3", "--root=s3://b/x", *WHO_S3, "--user=ada=ada"], "--user: 'ada' is not an identity"),
        (
            ["s3", "--root=s3://b/x", *WHO_S3, f"--user=zoe={AWS}:user/zoe"],
            "--user: 'zoe' is in no project of the quota file, allowed are ada, ben",
        ),
        (["nas"], "KIND: 'nas' is unknown, allowed are azure, gcs, s3"),
        (
            ["azure", "--root=az://lab/box/x", *WHO],
            f"--bastion_account: {B!r} is not an identity for setup azure",
        ),
        (
            [
                "azure",
                "--root=az://lab/box/x",
                "--bastion_account=b@x.org",
                "--users={}@x.org",
                "--make",
            ],
            "--make is not for setup azure without --provider",
        ),
        (
            [
                "azure",
                "--root=az://lab/box/x",
                "--bastion_account=b@x.org",
                "--users={}@x.org",
                "--make",
                "--provider=azure_vm",
            ],
            "--resource_group: missing",
        ),
    ],
)
def test_what_does_not_fit_is_told(words: list[str], error: str, run: Run, quota: str) -> None:
    """There is one line, a hint, and exit code 2."""
    ran = run("setup", *words, quota)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {error}")


def test_an_account_of_a_pool_gets_the_folders_of_its_pool(run: Run, quota: str) -> None:
    """`POOL=IDENTITY` is limited to the pool; an account without one has all, and is reported."""
    words = ("setup", "gcs", "--root=gs://bucket/b", quota, *WHO, "--json")
    ran = run(*words, "--agent_account=gpu=group:g", "--agent_account=tpu=group:t")
    assert (ran.code, ran.err) == (0, "")
    given = [each for each in json.loads(ran.out)["grants"] if each["principal"] == "group:g"]
    assert {each["role"] for each in given} == {"agent of gpu"}
    created = {each["prefix"] for each in given if each["right"] == "create"}
    assert created == {"run/gpu/", "machines/gpu/", "inbox/_bell/gpu/", "logs/", "output/"}
    assert "instructions/gpu/" in {each["prefix"] for each in given if each["right"] == "read"}
    everywhere = run(*words, "--agent_account=group:e")
    assert everywhere.err == (
        "group:e can act for the machines of every pool;"
        " to limit an identity to one pool: --agent_account=POOL=IDENTITY\n"
    )


@pytest.mark.parametrize("account", ["=x", "gpu=", "_bell=x", "a/b=x"])
def test_an_account_of_no_pool_is_refused(account: str, run: Run, quota: str) -> None:
    """The part before the sign is a pool's name, and there is a part after it."""
    ran = run("setup", "gcs", "--root=gs://b/x", quota, *WHO, f"--agent_account={account}")
    assert ran.code == 2
    assert ran.err.startswith(f"error: --agent_account: {account!r} is not POOL=IDENTITY")


def test_an_empty_account_gets_everything_once(
    run: Run, quota: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--make --yes` creates bucket, roles and permissions; later it only sets the policy."""
    role = "arn:aws:iam::123456789012:role/"
    with moto_server() as url, credentials():
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        words = (
            *("setup", "s3", f"--root=s3://fresh/b?endpoint_url={url}", quota),
            *(f"--bastion_account={role}bastion", f"--agent_account=gpu={role}bastion-gpu"),
            *("--user=ada=arn:aws:iam::123456789012:root", "--make", "--provider=ec2"),
            "--location=us-east-1",
        )
        printed = run(*words)
        assert printed.out.startswith("aws s3api head-bucket --bucket=fresh")
        first, second = run(*words, "--yes"), run(*words, "--yes")
    assert (first.code, second.code) == (0, 0), first.err
    made = [line for line in first.err.splitlines() if line.startswith(("made", "policy"))]
    assert made == [
        "made bucket s3://fresh in us-east-1",
        "made role and instance profile bastion",
        "made role and instance profile bastion-gpu",
        "policy bastion-machines of role bastion: 6 statements",
    ]
    assert not [line for line in second.err.splitlines() if line.startswith(("made", "policy"))]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--provider=gce",), "--provider needs --make"),
        (
            ("--make", "--provider=ec2"),
            "--provider: 'ec2' is not a provider of this cloud; must be",
        ),
        (("--make",), "--cloud_project: missing"),
    ],
)
def test_what_cannot_be_made_is_told(
    run: Run, quota: str, words: tuple[str, ...], said: str
) -> None:
    """Errors are reported before anything is printed or created."""
    ran = run("setup", "gcs", "--root=gs://b/x", quota, *WHO, *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


def test_a_quota_file_that_is_wrong_is_named(run: Run, tmp_path: Path) -> None:
    """The error has the line; a file that is not text is named too."""
    path = tmp_path / "quota.toml"
    path.write_bytes(b"\xff")
    ran = run("setup", "gcs", "--root=gs://bucket/b", f"--quota={path}", *WHO)
    assert ran.code == 2
    assert f"{path}: byte 0 is not UTF-8" in ran.err
    path.write_text("[toml-schema")
    assert f"{path}: line 1" in run("setup", "gcs", f"--quota={path}", *WHO).err
