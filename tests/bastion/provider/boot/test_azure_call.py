"""A machine of Azure reaches its bucket with its own identity, in its script's program."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, urlsplit

import pytest

from bastion.provider.boot.bare_program import bootstrap
from tests.servers.canned import canned

GIVEN = '{"access_token": "a.web.token", "expires_in": "86399", "token_type": "Bearer"}'
ANSWER = f"HTTP/1.1 200 OK\r\nContent-Length: {len(GIVEN)}\r\n\r\n{GIVEN}".encode()


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Provide an environment without credentials."""
    for name in ("STORAGE_SAS_TOKEN", "CLIENT_ID", "FEDERATED_TOKEN_FILE", "AUTHORITY_HOST"):
        monkeypatch.delenv(f"AZURE_{name}", raising=False)
    return monkeypatch


def headers_of(method: str, data: bytes | None = None) -> dict[str, str]:
    """Return the headers of a request for an object of a container."""
    program = ModuleType("program")
    exec(bootstrap("azure_call"), program.__dict__)  # the text that a machine runs
    request = program.REQUESTS["az"](urlsplit("az://lab"), "box/root/key", method, data)
    assert request.full_url == "https://lab.blob.core.windows.net/box/root/key"
    return {name.lower(): text for name, text in request.header_items()}


def test_a_vm_has_a_managed_identity(environ: pytest.MonkeyPatch) -> None:
    """Its metadata server gives a token, for one of several identities if it is named."""
    heard: list[bytes] = []
    with canned(ANSWER, heard=heard) as url:
        environ.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", url)
        headers = headers_of("PUT", b"said")
        environ.setenv("AZURE_CLIENT_ID", "1f-2e")
        headers_of("GET")
    assert headers["authorization"] == "Bearer a.web.token"
    assert headers["if-none-match"] == "*"
    assert b"\r\nMetadata: true\r\n" in heard[0]
    asked = [parse_qs(urlsplit(each.split()[1].decode()).query) for each in heard]
    wanted = {"api-version": ["2018-02-01"], "resource": ["https://storage.azure.com/"]}
    assert asked == [wanted, {**wanted, "client_id": ["1f-2e"]}]


def test_a_pod_has_a_workload_identity(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The cluster's token is exchanged for one of Microsoft Entra."""
    (tmp_path / "token").write_text("of.the.cluster\n")
    heard: list[bytes] = []
    with canned(ANSWER, heard=heard) as url:
        environ.setenv("AZURE_AUTHORITY_HOST", f"{url}/")
        environ.setenv("AZURE_TENANT_ID", "tenant")
        environ.setenv("AZURE_CLIENT_ID", "1f-2e")
        environ.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
        headers = headers_of("GET")
    assert headers["authorization"] == "Bearer a.web.token"
    head, _, form = heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /tenant/oauth2/v2.0/token ")
    assert parse_qs(form.decode()) == {
        "client_id": ["1f-2e"],
        "grant_type": ["client_credentials"],
        "scope": ["https://storage.azure.com/.default"],
        "client_assertion": ["of.the.cluster"],
        "client_assertion_type": ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"],
    }
