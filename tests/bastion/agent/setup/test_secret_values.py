"""Reading the values of secrets: from this machine, and from the clouds' secret managers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from bastion.agent.settings import AgentSettings
from bastion.agent.setup.code_setup import SetUpError
from bastion.agent.setup.secret_sources import BusyError, of_azure
from bastion.agent.setup.secret_values import values_of
from bastion.clock import VirtualClock
from bastion.secret_rules import SecretRule
from bastion.spec import Secret
from tests.servers.canned import canned
from tests.servers.s3 import credentials, moto_server
from tests.servers.secret_manager import Asked, secret_manager

VALUE = "hf_s3cr3t-token"


def value(source: str, folder: Path | None = None) -> str:
    """Return the value at `source` that the machine reads for this project."""
    return of_machine(source, folder, (SecretRule(source=source, projects=("vision",)),))


def of_machine(source: str, folder: Path | None, listed: tuple[SecretRule, ...]) -> str:
    """Return the value at `source` on a machine that reads what is `listed`."""
    settings = AgentSettings(
        machine="m",
        secrets_dir=str(folder or "/nonexistent"),
        secret_sources=listed,
        environ=os.environ,
    )
    given = {"A": source}
    return values_of([Secret("A")], given, settings, project="vision", clock=VirtualClock())["A"]


def refused(source: str, folder: Path | None = None) -> str:
    """Return the error; the secret's name is in it, and the value never."""
    with pytest.raises(SetUpError) as caught:
        value(source, folder)
    said = str(caught.value)
    assert said.startswith(f"secret A: {source}: ")
    assert VALUE not in f"{said} {caught.value.hint} {caught.value!r}"
    return said.removeprefix(f"secret A: {source}: ")


def test_a_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    """An editor's line end is not part of the value; links within the folder are followed."""
    (tmp_path / "real").write_text(f"{VALUE}\r\n")
    (tmp_path / "vision").mkdir()
    (tmp_path / "vision" / "A").symlink_to("../real")
    assert value("file:vision/A", tmp_path) == VALUE


def test_nothing_outside_the_folder_is_read(tmp_path: Path) -> None:
    """Whatever the source or a link, only plain files below the folder are read."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (tmp_path / "secrets-of-others").mkdir()
    for place in (tmp_path / "out", tmp_path / "secrets-of-others" / "x"):
        place.write_text(VALUE)
    (folder / "link").symlink_to(tmp_path / "out")
    (folder / "others").symlink_to(tmp_path / "secrets-of-others")
    for path in ("link", "others/x", "../out", "../secrets-of-others/x", str(tmp_path / "out")):
        assert "leads out of" in refused(f"file:{path}", folder)
    assert "a folder, not a file" in refused("file:.", folder)
    assert "no such file" in refused("file:missing", folder)


def test_no_file_of_another_project_is_read(tmp_path: Path) -> None:
    """Whatever an instruction names, a job gets only files of its own folder, or listed ones."""
    for project in ("vision", "red"):
        (tmp_path / project).mkdir()
        (tmp_path / project / "A").write_text(VALUE)
    assert of_machine("file:vision/A", tmp_path, ()) == VALUE
    for source in ("file:red/A", "file:vision/../red/A", "file:visionary/A", "file:A"):
        with pytest.raises(SetUpError, match="does not read it for project vision"):
            of_machine(source, tmp_path, ())
    reds = (SecretRule(source="file:red/A", projects=("red",)),)
    with pytest.raises(SetUpError, match="does not read it for project vision") as told:
        of_machine("file:red/A", tmp_path, reds)
    assert told.value.hint.endswith("--secret_source=vision=file:red/A")
    for projects in ("vision",), ("*",):
        listed = (SecretRule(source="file:red/*", projects=projects),)
        assert of_machine("file:red/A", tmp_path, listed) == VALUE


def test_a_list_is_all_that_a_machine_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a list, variables are read for every project; with one, only those it names."""
    monkeypatch.setenv("BASTION_SECRET_HF", VALUE)
    assert of_machine("env:HF", tmp_path, ()) == VALUE
    with pytest.raises(SetUpError, match="does not read it for project vision"):
        of_machine("env:HF", tmp_path, (SecretRule(source="env:WANDB", projects=("*",)),))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"short", "5 bytes; a secret must have at least 8"),
        (b"", "0 bytes"),
        (b"\xff" * 20, "not UTF-8 text"),
        (b"a\0" * 20, "not UTF-8 text without NUL"),
        (b"x" * 70_000, "more than 65536 bytes"),
    ],
)
def test_a_value_that_cannot_be_set_or_masked_is_refused(
    tmp_path: Path, data: bytes, why: str
) -> None:
    """A value that no variable can hold, or that could not be masked, is an error."""
    (tmp_path / "A").write_bytes(data)
    assert why in refused("file:A", tmp_path)


def test_only_variables_with_the_prefix_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """`env:` reaches the variables that are intended for jobs, and none of the agent's own."""
    monkeypatch.setenv("BASTION_SECRET_HF", VALUE)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", VALUE)
    assert value("env:HF") == VALUE
    assert "has no variable BASTION_SECRET_AWS_SECRET_ACCESS_KEY" in refused(
        "env:AWS_SECRET_ACCESS_KEY"
    )


def test_a_secret_that_was_not_granted_is_not_read() -> None:
    """A name that is missing from the instruction was denied after the launch was accepted."""
    with pytest.raises(SetUpError, match="secret B: this job may no longer use it"):
        values_of([Secret("B")], {"A": "env:A"}, AgentSettings(machine="m"), project="vision")


HF = "projects/acme/secrets/hf"


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """Run Google's secret manager on loopback."""
    values = {f"{HF}/versions/latest": VALUE.encode(), f"{HF}/versions/1": b"old-s3cr3t-token"}
    with secret_manager(values) as (url, asked):
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER", f"{url}/")
        yield asked
        assert not asked.strange


def test_the_latest_version_is_read_from_google(google: Asked) -> None:
    """A secret without a version is its latest one; each read is one request."""
    assert value(f"gcp:{HF}") == VALUE
    assert value(f"gcp:{HF}/versions/1") == "old-s3cr3t-token"
    assert google.names == [f"{HF}/versions/latest", f"{HF}/versions/1"]


def test_a_refusal_of_google_is_shown(google: Asked) -> None:
    """Google's reason is in the error, and there is no retry."""
    name = f"{HF}/versions/9"
    assert refused(f"gcp:{name}") == (
        f"Secret Manager refuses {name}: 404 Secret Version [{name}] not found."
    )
    assert len(google.names) == 1


def test_a_busy_google_is_retried(google: Asked) -> None:
    """429 and 5xx are retried a few times; then the start fails."""
    google.failures = [503, 429]
    assert value(f"gcp:{HF}") == VALUE
    google.failures = [500] * 9
    assert refused(f"gcp:{HF}") == "Secret Manager answered 500"
    assert len(google.failures) == 4


def test_nonsense_from_google_is_shown_by_its_type_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that cannot be understood may hold the value: it is not shown."""
    body = f'{{"payload": {{"data": "{VALUE}"}}}}'
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with canned(answer) as url:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER", url)
        assert refused(f"gcp:{HF}") == "cannot be read: Error"


@pytest.fixture
def amazon() -> Iterator[None]:
    """Run Amazon's secret manager on loopback."""
    with moto_server() as url, credentials():
        os.environ["AWS_ENDPOINT_URL_SECRETS_MANAGER"] = url
        yield


def test_amazon_gives_text_and_bytes(amazon: None) -> None:
    """A secret is found by name and by ARN, as a string or as bytes; no other is."""
    import boto3

    client = boto3.client("secretsmanager")
    made = client.create_secret(Name="prod/hf", SecretString=VALUE)
    client.create_secret(Name="bytes", SecretBinary=VALUE.encode())
    assert value("aws:prod/hf") == value(f"aws:{made['ARN']}") == value("aws:bytes") == VALUE
    assert "Secrets Manager refuses: ResourceNotFoundException: " in refused("aws:missing")


def test_a_machine_without_credentials_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the machine itself is shown without a retry."""
    with credentials():
        monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
        assert refused("aws:hf").startswith("Secrets Manager cannot be queried: ")


class Entra:
    """Gives one token, or none."""

    def __init__(self, token: str = "t") -> None:
        self.token = token
        self.scopes: tuple[str, ...] = ()

    def get_token(self, *scopes: str, **_: object) -> AccessToken:
        """Return the token."""
        self.scopes = scopes
        if not self.token:
            raise ClientAuthenticationError("no identity\nand a page about it")
        return AccessToken(self.token, 1 << 40)


def answered(status: int, body: str) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_azure_gives_the_current_version_or_the_one_that_is_named() -> None:
    """The request is the one that Key Vault documents, with a token for the vaults of its cloud."""
    heard: list[bytes] = []
    entra, version = Entra(), "0" * 32
    with canned(answered(200, f'{{"value": "{VALUE}", "id": "x"}}'), heard=heard) as url:
        assert of_azure("lab/hf", credential=entra, endpoint=url) == VALUE.encode()
        assert entra.scopes == ("https://vault.azure.net/.default",)
        of_azure(f"lab.vault.azure.cn/hf/{version}", credential=entra, endpoint=url)
        assert entra.scopes == ("https://vault.azure.cn/.default",)
    assert heard[0].startswith(b"GET /secrets/hf?api-version=7.4 HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer t\r\n" in heard[0]
    assert heard[1].startswith(f"GET /secrets/hf/{version}?api-version=7.4 ".encode())


def test_a_refusal_of_azure_is_shown() -> None:
    """Its reason is in the error; a busy vault is told apart."""
    refusal = '{"error": {"code": "Forbidden", "message": "no right to get"}}'
    said = "Key Vault refuses lab/hf: Forbidden: no right"
    with canned(answered(403, refusal)) as url, pytest.raises(SetUpError, match=said):
        of_azure("lab/hf", credential=Entra(), endpoint=url)
    for status in (429, 503):
        with canned(answered(status, "")) as url, pytest.raises(BusyError, match=str(status)):
            of_azure("lab/hf", credential=Entra(), endpoint=url)


def test_a_machine_without_an_identity_of_azure_says_so() -> None:
    """The library's page of text is cut to its first line."""
    with pytest.raises(SetUpError, match="no token: no identity") as caught:
        of_azure("lab/hf", credential=Entra(""))
    assert "a page" not in str(caught.value)
    assert "Key Vault Secrets User" in caught.value.hint
