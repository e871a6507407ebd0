"""Calls of Google's APIs: their identity, and the meaning of their errors."""

from __future__ import annotations

import datetime
import gc
from collections.abc import Iterator

import google.auth.exceptions
import pytest
from google.auth.credentials import Credentials

from bastion.clock import VirtualClock
from bastion.errors import ProviderRefusedError, ProviderUnavailableError
from bastion.provider.gcp.api import Api
from bastion.provider.gcp.gce import GceProvider
from tests.bastion.provider.gcp.rig import BUCKET, GPUS, gce, script, vms
from tests.servers.canned import canned
from tests.servers.google import ApiError, Compute


class Tokens(Credentials):
    """Credentials whose tokens come from a list; when it is empty, there is none."""

    def __init__(self, *tokens: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.left = list(tokens)

    def refresh(self, request: object) -> None:
        """Take the next token, which lives long."""
        if not self.left:
            raise google.auth.exceptions.RefreshError("invalid_grant: Token has been revoked")
        self.token = self.left.pop(0)
        self.expiry = datetime.datetime(2100, 1, 1)  # noqa: DTZ001 - google-auth has no zone


@pytest.fixture
def server() -> Iterator[Compute]:
    """Run Compute Engine, with every exchange checked against Google's description."""
    with Compute.at(VirtualClock()) as made:
        yield made
        assert made.problems == []


def owned(server: Compute, credentials: Credentials) -> GceProvider:
    """Return a provider with credentials."""
    api = Api(
        "compute",
        project=server.project,
        clock=server.clock,
        endpoint=server.url,
        credentials=credentials,
    )
    return GceProvider(GPUS, bucket=BUCKET, script=script, api=api)


def test_credentials_that_expire_in_the_middle_are_renewed(server: Compute) -> None:
    """A token that is no longer accepted is replaced, and the same call continues."""
    server.tokens = {"first"}
    provider = owned(server, Tokens("first", "second"))
    assert provider.list() == ()
    server.tokens = {"second"}
    provider.create(vms(2), GPUS)
    assert server.made == 2


def test_credentials_that_are_revoked_are_a_refusal(server: Compute) -> None:
    """Without a token nothing is created, and the error says what to do; a new one works."""
    server.tokens = {"first"}
    tokens = Tokens("first")
    provider = owned(server, tokens)
    assert provider.list() == ()
    server.tokens = {"second"}
    with pytest.raises(ProviderRefusedError, match="revoked") as refused:
        provider.create(vms(2), GPUS)
    assert "gcloud auth" in refused.value.hint
    tokens.left.append("second")
    provider.create(vms(2), GPUS)
    assert server.made == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nwho",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
    ],
    ids=["no-json", "no-object", "half", "gateway", "no-http", "nothing"],
)
def test_what_is_no_answer_of_googles_is_no_answer(answer: bytes) -> None:
    """If something else answers, the outcome is unknown, and there is no list."""
    with canned(answer) as url:
        api = Api("compute", project="acme", clock=VirtualClock(), endpoint=f"{url}/compute/v1/")
        provider = GceProvider(GPUS, bucket=BUCKET, script=script, api=api)
        with pytest.raises(ProviderUnavailableError):
            provider.list()


def test_a_server_that_is_away_is_told_in_words() -> None:
    """The error names the server and what to check, as errors of stores do."""
    with canned(b"") as url:
        pass
    for at, words in (
        (url, f"list of pool {GPUS.name}: {url} refuses connections"),
        ("http://nowhere.invalid", "the host name nowhere.invalid was not found"),
    ):
        api = Api("compute", project="acme", clock=VirtualClock(), endpoint=f"{at}/compute/v1/")
        provider = GceProvider(GPUS, bucket=BUCKET, script=script, api=api)
        with pytest.raises(ProviderUnavailableError, match=words) as away:
            provider.list()
        assert away.value.hint.startswith("check the ")


def test_a_pause_that_google_asks_for_is_kept(server: Compute) -> None:
    """An exceeded rate limit says how long to wait: as Google asks, within bounds."""
    for asked, kept_s in (("45", 45.0), ("1", 20.0), ("86400", 300.0)):
        headers = {"Retry-After": asked}
        server.fail("List", ApiError(429, "rateLimitExceeded", "slow", headers=headers))
        with pytest.raises(ProviderUnavailableError) as paced:
            gce(server).list()
        assert paced.value.retry_after_s == kept_s


def test_pages_without_end_are_no_list() -> None:
    """A server that always has another page is not followed forever."""
    body = b'{"nextPageToken": "again", "items": {}}'
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    with canned(answer + body) as url:
        api = Api("compute", project="acme", clock=VirtualClock(), endpoint=f"{url}/compute/v1/")
        provider = GceProvider(GPUS, bucket=BUCKET, script=script, api=api)
        with pytest.raises(ProviderUnavailableError, match="pages"):
            provider.list()


def test_lists_leave_nothing_behind(server: Compute) -> None:
    """The client's megabytes of a resource are loaded once, not per call."""
    provider = gce(server)

    def made() -> int:
        return sum(type(each).__name__ == "Resource" for each in gc.get_objects())

    provider.list()
    before = made()
    for _ in range(5):
        provider.list()
    assert made() == before
