"""Google's answers, and how the store treats them."""

from __future__ import annotations

import gzip
import urllib.request
from typing import Any

import google.auth.credentials
import google.auth.exceptions
import google.oauth2.credentials
import pytest

from bastion.errors import (
    ConflictError,
    NotFoundError,
    OversizeError,
    StoreError,
    StoreRefusedError,
)
from bastion.store.gcs import LONGEST_PAUSE_S, GcsStore, default_credentials
from bastion.store.port import Object, Version
from bastion.store.roads import proxy_of
from tests.bastion.store.operations import OPERATIONS, failures
from tests.servers.canned import canned
from tests.servers.gcs import Caller, GcsServer
from tests.servers.gcs.answers import ApiError

ALL = frozenset(f"storage.objects.{each}" for each in ("get", "create", "delete", "list"))


def anonymous(server: GcsServer, bucket: str = "b", prefix: str = "") -> GcsStore:
    """Provide a store without an identity."""
    return GcsStore(bucket, prefix, credentials=None, endpoint=server.url)


@pytest.mark.parametrize(
    ("status", "reason", "refused", "retry_after_s"),
    [
        (400, "invalid", True, 0.0),
        (403, "forbidden", True, 0.0),
        (403, "userRateLimitExceeded", False, 1.1),
        (408, "requestTimeout", False, 0.0),
        (409, "conflict", False, 0.0),
        (429, "rateLimitExceeded", False, 1.1),
        (500, "backendError", False, 0.0),
        (503, "backendError", False, 0.0),
    ],
)
def test_errors_are_told_apart(
    status: int, reason: str, refused: bool, retry_after_s: float
) -> None:
    """Permanent errors are refusals; temporary ones are not, and say how long to wait."""
    why = "why: the rate limit" if "RateLimit" in reason else "why"
    with GcsServer("b", fault=lambda request: ApiError(status, reason, why)) as server:
        for failure in failures(anonymous(server)):
            assert isinstance(failure, StoreRefusedError) is refused
            assert failure.retry_after_s == retry_after_s
            assert "why" in str(failure)


def test_google_may_ask_for_a_longer_pause() -> None:
    """A Retry-After longer than our own pause reaches the caller."""
    slow = ApiError(429, "rateLimitExceeded", "why", headers={"Retry-After": "7"})
    with GcsServer("b", fault=lambda request: slow) as server:
        assert {failure.retry_after_s for failure in failures(anonymous(server))} == {7.0}


def test_a_second_write_within_a_second_is_slowed_not_lost() -> None:
    """429 for a fast second write is no conflict, and the object is unchanged."""
    with GcsServer("b", mutation_pause_s=60) as server:
        store = anonymous(server)
        version = store.create("a", b"1").version
        with pytest.raises(StoreError) as caught:
            store.swap("a", b"2", if_version=version)
        assert caught.value.retry_after_s >= 1.1
        assert store.read("a", unless=version) is None


def test_a_missing_bucket_is_refused_with_the_way_out() -> None:
    """Every operation reports the missing bucket, and how to create it."""
    with GcsServer() as server:
        for failure in failures(anonymous(server, "nowhere")):
            assert isinstance(failure, StoreRefusedError)
            assert "no bucket gs://nowhere" in str(failure)
            assert "gcloud storage buckets create gs://nowhere" in failure.hint


def test_an_object_named_as_the_error_is_only_absent() -> None:
    """An absent object is absent, whatever words its name contains."""
    with GcsServer("b") as server, pytest.raises(NotFoundError):
        anonymous(server).read("The specified bucket does not exist.")


def test_callers_are_refused_by_name() -> None:
    """The error has the caller's identity and the command that grants the permission."""
    reader = Caller(email="ada@example.com", permissions=frozenset({"storage.objects.get"}))
    with GcsServer("b", callers={"good": reader}) as server:

        def store(token: str) -> GcsStore:
            credentials = google.oauth2.credentials.Credentials(
                token=token, account="ada@example.com"
            )
            return GcsStore("b", credentials=credentials, endpoint=server.url)

        with pytest.raises(NotFoundError):
            store("good").read("a")
        with pytest.raises(StoreRefusedError, match=r"refuses ada@example.com") as caught:
            store("good").create("a", b"1")
        assert "'a' was not " in caught.value.message
        assert "bastion setup gcs" in caught.value.hint
        assert "objectUser" not in caught.value.hint, "no caller is told to open the whole bucket"
        for failure in failures(store("bad")):
            assert isinstance(failure, StoreRefusedError)
            assert "ada@example.com" in str(failure)
            assert "application-default login" in failure.hint


class Tokenless(google.auth.credentials.Credentials):
    """Credentials that fail to get a token."""

    def __init__(self, error: Exception) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._error = error

    def refresh(self, request: Any) -> None:
        """Fail."""
        raise self._error


def test_no_token_is_a_fault_or_a_refusal() -> None:
    """A token server out of reach can be retried; one that refuses cannot."""
    with GcsServer("b") as server:
        for error, refused in (
            (google.auth.exceptions.TransportError("away"), False),
            (google.auth.exceptions.RefreshError("revoked"), True),
        ):
            store = GcsStore("b", credentials=Tokenless(error), endpoint=server.url)
            for failure in failures(store):
                assert isinstance(failure, StoreRefusedError) is refused


def test_a_metadata_server_that_is_away_is_no_refusal() -> None:
    """On a VM, google-auth reports an absent server as a refusal: it can be retried."""

    class OfAVm(Tokenless):
        __module__ = "google.auth.compute_engine.credentials"

    flaky = google.auth.exceptions.RefreshError("try again", retryable=True)
    with GcsServer("b") as server:
        for credentials in (
            OfAVm(google.auth.exceptions.RefreshError("metadata away")),
            Tokenless(flaky),
        ):
            store = GcsStore("b", credentials=credentials, endpoint=server.url)
            for failure in failures(store):
                assert not isinstance(failure, StoreRefusedError)


class Renewing(google.auth.credentials.Credentials):
    """Credentials with a new token for each refresh."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.token, self.refreshed = "t0", 0
        self.expiry = None

    def refresh(self, request: Any) -> None:
        """Take the next token."""
        self.refreshed += 1
        self.token = f"t{self.refreshed}"


def test_a_token_that_died_early_is_replaced_once() -> None:
    """A 401 fetches another token, and the request is repeated; a second one is a refusal."""
    every = Caller(email="ada@example.com", permissions=ALL)
    with GcsServer("b", callers={"t1": every}) as server:
        credentials = Renewing()
        store = GcsStore("b", credentials=credentials, endpoint=server.url)
        store.create("a", b"1")
        found = store.read("a")
        assert found is not None and found.data == b"1"
        assert credentials.refreshed == 1
    with GcsServer("b", callers={}) as server:
        credentials = Renewing()
        with pytest.raises(StoreRefusedError, match="does not know"):
            GcsStore("b", credentials=credentials, endpoint=server.url).read("a")
        assert credentials.refreshed == 1


def test_a_create_that_is_refused_where_an_object_stands_is_a_conflict() -> None:
    """Google may check permissions before preconditions: the existing object decides."""

    def fault(request: Any) -> ApiError | None:
        is_upload = request.method == "POST" and "uploadType" in request.query
        return ApiError(403, "forbidden", "needs storage.objects.delete") if is_upload else None

    with GcsServer("b") as server:
        store = anonymous(server)
        store.create("a", b"1")
        server.fault = fault
        with pytest.raises(ConflictError):
            store.create("a", b"2")
        with pytest.raises(StoreRefusedError, match=r"storage\.objects\.delete"):
            store.create("b", b"2")


@pytest.mark.parametrize(
    "text", ["Not Found", "<html>404</html>", "Bucket b does not exist.", "The requested URL"]
)
def test_only_googles_words_are_an_absence(text: str) -> None:
    """A 404 that does not name the object says nothing about any object."""
    body = text.encode()
    head = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(body)
    with canned(head + body) as url:
        store = GcsStore("b", credentials=None, endpoint=url)
        for operation in OPERATIONS:
            with pytest.raises(StoreError) as caught:
                operation(store)
            assert not isinstance(caught.value, StoreRefusedError)


def test_a_pause_that_is_asked_for_is_bounded() -> None:
    """A server that asks for a pause of a day is retried after a lease."""
    slow = ApiError(503, "backendError", "why", headers={"Retry-After": "86400"})
    with GcsServer("b", fault=lambda request: slow) as server:
        pauses = {failure.retry_after_s for failure in failures(anonymous(server))}
    assert pauses == {LONGEST_PAUSE_S}


def test_a_listed_object_without_a_size_is_empty() -> None:
    """Some servers omit the size of an empty object; the rest is listed too."""
    item = b'{"name": "a", "generation": "5", "timeCreated": "2023-11-14T22:13:20Z"}'
    body = b'{"items": [' + item + b"]}"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    with canned(head + body) as url:
        (entry,) = GcsStore("b", credentials=None, endpoint=url).list("")
    assert (entry.key, entry.size) == ("a", 0)


def test_a_proxy_is_asked_where_the_environment_names_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests use the environment's proxy, except to the excluded hosts."""
    heard: list[bytes] = []
    body = b"No such object: b/a"
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with canned(answer, heard=heard) as url:
        monkeypatch.setenv("http_proxy", url)
        store = GcsStore("b", credentials=None, endpoint="http://storage.example.com")
        with pytest.raises(NotFoundError):
            store.read("a")
        assert heard[0].startswith(b"GET http://storage.example.com/storage/v1/b/b/o/a")
        assert proxy_of("http://metadata.google.internal/computeMetadata/v1/") == ""
        monkeypatch.setenv("no_proxy", "storage.example.com")
        assert proxy_of("http://storage.example.com/x") == ""


def test_no_credentials_are_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no credentials can be found, the error says how to get some."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent.json")
    with pytest.raises(StoreRefusedError) as caught:
        default_credentials()
    assert "gcloud auth application-default login" in caught.value.hint


def test_a_prefix_is_a_world_of_its_own() -> None:
    """Stores with different prefixes in one bucket do not see each other."""
    with GcsServer("b") as server:
        one, two = anonymous(server, prefix="one"), anonymous(server, prefix="one/two")
        one.create("a", b"1")
        two.create("a", b"2")
        assert [entry.key for entry in two.list("")] == ["a"]
        assert [entry.key for entry in one.list("")] == ["a", "two/a"]
        assert [entry.key for entry in one.list("", start_after="a")] == ["two/a"]


def test_what_is_no_key_is_left_out_of_lists() -> None:
    """Folder markers and invalid names are skipped, and shorten no page."""
    with GcsServer("b") as server:
        api = server.api
        store = anonymous(server)
        for name in ("a", "b", "c"):
            store.create(name, b"")
        blob = api.buckets["b"].blobs["a"]
        for name in ("a/", "a//b", "../x", "b\t", "bb/"):
            api.buckets["b"].put(type(blob)(**{**vars(blob), "name": name}))
        assert [entry.key for entry in store.list("")] == ["a", "b", "c"]
        assert [entry.key for entry in store.list("", limit=2)] == ["a", "b"]
        assert [entry.key for entry in store.list("", start_after="a", limit=2)] == ["b", "c"]


def test_times_agree_to_the_millisecond() -> None:
    """Write, read and list have the same time, though a download's date has only seconds."""
    with GcsServer("b") as server:
        store = anonymous(server)
        written = store.create("a", b"1")
        found = store.read("a")
        assert isinstance(found, Object)
        assert store.list("")[0].modified_at == written.modified_at
        assert found.modified_at == pytest.approx(written.modified_at, abs=0.001)


CANNED = {
    "no length": b"HTTP/1.1 200 OK\r\nX-Goog-Generation: 5\r\n\r\nhalf of",
    "no version": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
    "not http": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a portal": b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>hi</html>",
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("answer", CANNED.values(), ids=CANNED)
def test_nonsense_is_no_answer(answer: bytes) -> None:
    """An answer that Google would never send is treated as none."""
    with canned(answer) as url:
        store = GcsStore("b", credentials=None, endpoint=url)
        for operation in OPERATIONS:
            with pytest.raises(StoreError) as caught:
                operation(store)
            assert not isinstance(caught.value, StoreRefusedError)


def test_an_answer_may_come_in_chunks() -> None:
    """A chunked answer is read to its last chunk, and an incomplete one is no answer."""
    head = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Goog-Generation: 1700000000000000\r\n"
    )
    head += b"Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\r\n5\r\nhello\r\n"
    with canned(head + b"1\r\n!\r\n0\r\n\r\n") as url:
        found = GcsStore("b", credentials=None, endpoint=url).read("a")
        assert found == Object(
            data=b"hello!", version=Version("1700000000000000"), modified_at=1.7e9
        )
    with canned(head) as url, pytest.raises(StoreError):
        GcsStore("b", credentials=None, endpoint=url).read("a")


def test_an_answer_in_drops_ends_with_the_deadline() -> None:
    """A slow answer ends at the deadline."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    with canned(head, drip=b"x") as url, pytest.raises(StoreError):
        GcsStore("b", credentials=None, endpoint=url, deadline_s=0.2).read("a")


def test_bytes_that_name_themselves_compressed_are_not_inflated() -> None:
    """An object stored with `Content-Encoding: gzip` is read as the bytes in a list."""
    packed = gzip.compress(b"x" * 10_000_000)
    with GcsServer("b") as server:
        upload = f"{server.url}/upload/storage/v1/b/b/o"
        query = "uploadType=media&name=a&contentEncoding=gzip&ifGenerationMatch=0"
        request = urllib.request.Request(f"{upload}?{query}", data=packed, method="POST")
        urllib.request.urlopen(request, timeout=10).close()
        store = anonymous(server)
        (entry,) = store.list("")
        found = store.read("a", limit_bytes=entry.size)
        assert found is not None and found.data == packed
        with pytest.raises(OversizeError):
            store.read("a", limit_bytes=entry.size - 1)
