"""Which identity requests to Azure are made with."""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from bastion.clock import SystemClock, VirtualClock
from bastion.errors import StoreError, StoreRefusedError
from bastion.store.azure.blobs import AzureStore
from bastion.store.azure.caller import (
    Caller,
    SharedAccess,
    SharedKey,
    Token,
    default_caller,
    default_credential,
)
from tests.bastion.store.operations import failures
from tests.servers.azurite import (
    ACCOUNT,
    KEY,
    access_token,
    azurite_server,
    make_container,
    needs_azurite,
    shared_access,
)
from tests.servers.canned import canned

F = TypeVar("F", bound=Callable[..., None])


def real(test: F) -> F:
    """Mark a test that needs the emulator."""
    for mark in needs_azurite:
        test = mark(test)
    return test


OTHERS = ("ACCOUNT", "KEY", "SAS_TOKEN", "CONNECTION_STRING")


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Provide an environment without credentials."""
    for name in OTHERS:
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    return monkeypatch


def test_the_variables_of_the_az_command_come_first(environ: pytest.MonkeyPatch) -> None:
    """A key or a signature is used for the account that it is for."""
    assert isinstance(default_caller("lab"), Token)
    environ.setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=s")
    assert isinstance(default_caller("lab"), SharedAccess)
    environ.setenv("AZURE_STORAGE_KEY", KEY)
    assert isinstance(default_caller("lab"), SharedKey)
    environ.setenv("AZURE_STORAGE_ACCOUNT", "other")
    assert isinstance(default_caller("lab"), Token)
    assert isinstance(default_caller("other"), SharedKey)


def test_a_connection_string_is_for_one_account(environ: pytest.MonkeyPatch) -> None:
    """Its names are written in any case."""
    text = f"DefaultEndpointsProtocol=https;AccountName=lab;AccountKey={KEY}"
    environ.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    assert isinstance(default_caller("lab"), SharedKey)
    assert isinstance(default_caller("other"), Token)
    environ.setenv(
        "AZURE_STORAGE_CONNECTION_STRING", "AccountName=lab;SharedAccessSignature=sv=1&sig=s%3D"
    )
    url, _ = default_caller("lab").signed("GET", "https://lab.x/c?a=b", {})
    assert url == "https://lab.x/c?a=b&sv=1&sig=s%3D"


def test_a_key_that_is_none_is_refused(environ: pytest.MonkeyPatch) -> None:
    """The message does not repeat it."""
    environ.setenv("AZURE_STORAGE_KEY", "no base64!")
    with pytest.raises(StoreRefusedError, match="not base64") as caught:
        default_caller("lab")
    assert "no base64!" not in str(caught.value)


class Credential:
    """Gives tokens that last an hour, one after the other; or an error."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.given, self.error = clock, 0, ""

    def get_token(self, *scopes: str, **_: object) -> AccessToken:
        """Return the next token."""
        assert scopes == ("https://storage.azure.com/.default",)
        if self.error:
            raise ClientAuthenticationError(self.error)
        self.given += 1
        return AccessToken(f"t{self.given}", int(self.clock.wall()) + 3600)


def said(token: Token) -> str:
    """Return the token of a request."""
    return token.signed("GET", "https://lab.x/c", {})[1]["Authorization"].removeprefix("Bearer ")


def test_a_token_is_used_until_it_is_about_to_expire() -> None:
    """Programs such as `az` take a second to give one."""
    clock = VirtualClock(wall=1e9)
    credential = Credential(clock)
    token = Token(credential, clock)
    assert [said(token) for _ in range(3)] == ["t1"] * 3
    clock.advance(3299)
    assert said(token) == "t1"
    clock.advance(2)
    assert said(token) == "t2"


def test_no_token_is_a_refusal_only_if_there_never_was_one() -> None:
    """A machine's metadata server may be away for a moment."""
    clock = VirtualClock(wall=1e9)
    credential = Credential(clock)
    token = Token(credential, clock)
    credential.error = "no credential worked\nand why"
    with pytest.raises(StoreRefusedError, match=r"no credential worked\n|$") as caught:
        said(token)
    assert "az login" in caught.value.hint
    credential.error = ""
    assert said(token) == "t1"
    clock.advance(3600)
    credential.error = "metadata away"
    with pytest.raises(StoreError, match="no token from Azure: metadata away") as away:
        said(token)
    assert not isinstance(away.value, StoreRefusedError)


def test_a_token_that_was_revoked_is_replaced_once() -> None:
    """The request is repeated with another token; a second 401 is a refusal."""
    clock = VirtualClock(wall=1e9)
    credential = Credential(clock)
    heard: list[bytes] = []
    refusal = (
        b"HTTP/1.1 401 X\r\nConnection: close\r\nx-ms-error-code: InvalidAuthenticationInfo\r\n"
        b"Content-Length: 0\r\n\r\n"
    )
    with canned(refusal, heard=heard) as url:
        store = AzureStore("lab", "c", caller=Token(credential, clock), endpoint_url=url)
        for failure in failures(store):
            assert isinstance(failure, StoreRefusedError)
            assert "az login" in failure.hint
    asked = [line for each in heard for line in each.split(b"\r\n") if b"Bearer" in line]
    assert asked[:2] == [b"Authorization: Bearer t1", b"Authorization: Bearer t2"]


@pytest.mark.usefixtures("environ")
def test_a_machine_without_any_identity_is_told_how_to_get_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """azure-identity's own long text is cut to its first line."""
    environment = pytest.MonkeyPatch()
    environment.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:9")
    environment.setenv("PATH", str(tmp_path))
    environment.setenv("HOME", str(tmp_path))
    try:
        with pytest.raises(StoreRefusedError) as caught:
            said(Token(default_credential(), SystemClock()))
    finally:
        environment.undo()
    assert "\n" not in str(caught.value).partition("\nhint")[0]
    assert capsys.readouterr().err == "", "the log of the library is not printed"
    assert "az login" in caught.value.hint


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Provide an emulator with TLS, as tokens need, whose certificate this process trusts."""
    folder = tmp_path_factory.mktemp("azurite")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=azurite", "-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    options = (f"--cert={certificate}", f"--key={key}", "--oauth=basic")
    environment = pytest.MonkeyPatch()
    environment.setenv("SSL_CERT_FILE", str(certificate))
    with azurite_server(folder, *options) as url:
        make_container(url, "box")
        yield url
    environment.undo()


class Given:
    """A token that was made before."""

    def __init__(self, token: str) -> None:
        self.token = token

    def get_token(self, *_: str, **__: object) -> AccessToken:
        """Return it."""
        return AccessToken(self.token, int(time.time()) + 3600)


@pytest.mark.parametrize("kind", ["key", "signature", "token"])
@real
def test_every_identity_is_accepted(endpoint: str, kind: str) -> None:
    """The emulator checks keys and signatures as Azure does, and the claims of tokens."""
    caller: Caller
    match kind:
        case "key":
            caller = SharedKey(ACCOUNT, KEY)
        case "signature":
            caller = SharedAccess(ACCOUNT, shared_access("rwdlac"))
        case _:
            caller = Token(Given(access_token()), SystemClock())
    store = AzureStore(ACCOUNT, "box", kind, caller=caller, endpoint_url=endpoint)
    written = store.create("a b", b"1")
    store.swap("a b", b"2", if_version=written.version)
    assert [entry.key for entry in store.list("a ")] == ["a b"]
    store.delete("a b")


@real
def test_an_identity_without_rights_is_refused_by_its_kind(endpoint: str) -> None:
    """The message says which identity it was, and shows nothing secret."""
    wrong = base64.b64encode(b"another").decode()
    reader = shared_access("rl")
    for caller, named in (
        (SharedKey(ACCOUNT, wrong), f"the key of account {ACCOUNT}"),
        (SharedAccess(ACCOUNT, reader), f"the shared access signature for account {ACCOUNT}"),
        (Token(Given(access_token(lasts_s=-60)), SystemClock()), "this identity"),
    ):
        store = AzureStore(ACCOUNT, "box", caller=caller, endpoint_url=endpoint)
        with pytest.raises(StoreRefusedError, match=named) as caught:
            store.create("new", b"")
        assert wrong not in str(caught.value)
        assert reader not in str(caught.value)
