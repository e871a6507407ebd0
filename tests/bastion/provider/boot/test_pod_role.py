"""A pod reaches its bucket with the role of its service account, in its script's program."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, urlsplit

import pytest

from bastion.provider.boot.bare_program import bootstrap
from tests.servers.canned import canned

HIDDEN = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
ROLE = "arn:aws:iam::123456789012:role/trainer"
OF_STS = """<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>ASIAPOD</AccessKeyId><SecretAccessKey>a/b+c=</SecretAccessKey>
<SessionToken>to/ken+==</SessionToken><Expiration>2026-11-30T00:00:00Z</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""
OF_AGENT = {"AccessKeyId": "ASIAPOD", "SecretAccessKey": "a/b+c=", "Token": "to/ken+=="}


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Provide an environment without other credentials."""
    for name in HIDDEN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    return monkeypatch


def answered(text: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


def signed() -> dict[str, str]:
    """Return the headers of a request for an object of a bucket."""
    program = ModuleType("program")
    exec(bootstrap("pod_role"), program.__dict__)  # the text that a pod runs
    request = program.of_s3(urlsplit("s3://bucket"), "key", "GET", None)
    assert request.full_url == "https://bucket.s3.eu-west-1.amazonaws.com/key"
    return {name.lower(): text for name, text in request.header_items()}


def test_the_role_in_the_annotation_of_a_service_account(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The cluster's token is exchanged for credentials (IRSA)."""
    (tmp_path / "token").write_text("a.web.token\n")
    heard: list[bytes] = []
    with canned(answered(OF_STS), heard=heard) as url:
        environ.setenv("AWS_ENDPOINT_URL_STS", url)
        environ.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        environ.setenv("AWS_ROLE_ARN", ROLE)
        headers = signed()
    said = parse_qs(heard[0].partition(b"\r\n\r\n")[2].decode())
    assert said == {
        "Action": ["AssumeRoleWithWebIdentity"],
        "Version": ["2011-06-15"],
        "RoleArn": [ROLE],
        "RoleSessionName": ["bastion"],
        "WebIdentityToken": ["a.web.token"],
    }
    assert headers["x-amz-security-token"] == "to/ken+=="
    assert "Credential=ASIAPOD/" in headers["authorization"]


def test_the_role_that_an_association_gives(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The agent on the node is queried with the token of the pod (EKS Pod Identity)."""
    (tmp_path / "token").write_text("a.pod.token")
    heard: list[bytes] = []
    with canned(answered(json.dumps(OF_AGENT)), heard=heard) as url:
        environ.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/v1/credentials")
        environ.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        headers = signed()
    assert heard[0].startswith(b"GET /v1/credentials ")
    assert b"Authorization: a.pod.token\r\n" in heard[0]
    assert headers["x-amz-security-token"] == "to/ken+=="
    assert "Credential=ASIAPOD/" in headers["authorization"]


def test_keys_of_a_secret_come_first(environ: pytest.MonkeyPatch) -> None:
    """As everywhere in Amazon's programs."""
    environ.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    environ.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    environ.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/none")
    environ.setenv("AWS_ROLE_ARN", ROLE)
    assert "Credential=AKIA/" in signed()["authorization"]
