"""The GCS test server answers like Google: tested against Google's description and clients."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import urllib3
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests.rigs.limits import killed
from tests.servers.discovery import problems
from tests.servers.gcs import Caller, GcsServer
from tests.servers.gcs.answers import Answer, backend_error
from tests.servers.gcs.api import Request


class Watch:
    """Records every exchange that differs from Google's description."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.seen = 0

    def __call__(self, request: Request, answer: Answer) -> None:
        """Check one exchange."""
        self.seen += 1
        self.wrong += problems(request, answer)


@pytest.fixture
def server() -> Iterator[GcsServer]:
    """Run a server with one bucket; every exchange of a test is checked against the description."""
    watch = Watch()
    with GcsServer("b", observe=watch) as found:
        yield found
    assert watch.seen
    assert watch.wrong == []


@pytest.fixture
def http() -> urllib3.PoolManager:
    """Run a plain client without retries."""
    return urllib3.PoolManager(retries=False)


@pytest.fixture
def bucket(server: GcsServer) -> storage.Bucket:
    """Return the bucket, by Google's own client."""
    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": server.url},
    )
    return client.bucket("b")


def upload(http: urllib3.PoolManager, server: GcsServer, query: str, body: bytes = b"x") -> Any:
    """Upload one object in the simple way."""
    url = f"{server.url}/upload/storage/v1/b/b/o?uploadType=media&{query}"
    return http.request("POST", url, body=body, headers={"Content-Type": "text/plain"})


def reason(answer: Any) -> str:
    """Return the reason code of an error."""
    return str(answer.json()["error"]["errors"][0]["reason"])


def test_googles_client_writes_and_reads(bucket: storage.Bucket) -> None:
    """Uploads of every kind, downloads, ranges and metadata work with google-cloud-storage."""
    blob = bucket.blob("folder/a b+ü")
    blob.upload_from_string(b"0123456789", content_type="text/plain", checksum="crc32c")
    assert blob.generation
    assert blob.download_as_bytes() == b"0123456789"
    assert blob.download_as_bytes(start=2, end=4) == b"234"
    blob.metadata = {"k": "v"}
    blob.patch()
    blob.reload()
    assert (blob.metadata, blob.metageneration, blob.size) == ({"k": "v"}, 2, 10)
    large = bucket.blob("large", chunk_size=256 * 1024)
    large.upload_from_string(bytes(range(256)) * 4000)
    assert large.download_as_bytes() == bytes(range(256)) * 4000
    assert bucket.blob("absent").exists() is False


def test_googles_client_sees_conditions_fail(bucket: storage.Bucket) -> None:
    """google-cloud-storage sees each failed precondition as 412, and as 304 for a not-match."""
    blob = bucket.blob("a")
    blob.upload_from_string(b"1", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"2", if_generation_match=0)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.delete(if_generation_match=1)
    with pytest.raises(exceptions.PreconditionFailed):
        blob.patch(if_metageneration_match=7)
    with pytest.raises(exceptions.NotModified):
        blob.reload(if_generation_not_match=blob.generation)
    blob.upload_from_string(b"3", if_generation_match=blob.generation)
    blob.delete(if_generation_match=blob.generation)
    with pytest.raises(exceptions.NotFound):
        blob.delete()


def test_googles_client_lists(bucket: storage.Bucket) -> None:
    """Prefix, delimiter, offsets and pages list as google-cloud-storage expects."""
    for name in ("a", "b/1", "b/2", "b/c/3", "d/4", "e"):
        bucket.blob(name).upload_from_string(b"")
    client = bucket.client

    def names(**query: Any) -> list[str]:
        return [blob.name for blob in client.list_blobs(bucket, **query)]

    assert names() == ["a", "b/1", "b/2", "b/c/3", "d/4", "e"]
    assert names(prefix="b/") == ["b/1", "b/2", "b/c/3"]
    assert names(start_offset="b/2", end_offset="e") == ["b/2", "b/c/3", "d/4"]
    assert names(page_size=2) == names()
    shallow = client.list_blobs(bucket, delimiter="/")
    assert [blob.name for blob in shallow] == ["a", "e"]
    assert shallow.prefixes == {"b/", "d/"}
    paged = client.list_blobs(bucket, delimiter="/", page_size=1)
    assert [blob.name for blob in paged] == ["a", "e"]
    assert paged.prefixes == {"b/", "d/"}
    below = client.list_blobs(bucket, prefix="b/", delimiter="/")
    assert [blob.name for blob in below] == ["b/1", "b/2"]
    assert below.prefixes == {"b/c/"}


def test_googles_client_composes_copies_and_rewrites(bucket: storage.Bucket) -> None:
    """Compose joins in order, copies and rewrites keep data and fields, all under conditions."""
    for n in (1, 2):
        bucket.blob(f"{n}").upload_from_string(b"%d" % n, content_type="text/plain")
    both = bucket.blob("12")
    both.compose([bucket.blob("1"), bucket.blob("2")], if_generation_match=0)
    assert (both.download_as_bytes(), both.component_count) == (b"12", 2)
    with pytest.raises(exceptions.PreconditionFailed):
        both.compose([bucket.blob("1")], if_generation_match=0)
    copied = bucket.copy_blob(bucket.blob("1"), bucket, "copy", if_generation_match=0)
    assert (copied.download_as_bytes(), copied.content_type) == (b"1", "text/plain")
    token, done, total = bucket.blob("new").rewrite(copied)
    assert (token, done, total) == (None, 1, 1)
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob("new").rewrite(copied, if_source_generation_match=1)


def test_buckets_are_made_found_and_deleted(server: GcsServer, bucket: storage.Bucket) -> None:
    """Buckets answer insert, get, list and delete, with 404 and 409 where they must."""
    client = bucket.client
    client.create_bucket("other")
    assert [b.name for b in client.list_buckets()] == ["b", "other"]
    with pytest.raises(exceptions.Conflict):
        client.create_bucket("other")
    client.bucket("other").delete()
    with pytest.raises(exceptions.NotFound, match="The specified bucket does not exist"):
        client.get_bucket("other")
    with pytest.raises(exceptions.NotFound, match="The specified bucket does not exist"):
        list(client.list_blobs("other"))


def test_gcsfs_works(server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The filesystem gcsfs writes, reads, lists, copies and removes (by batch) on the server."""
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    import gcsfs

    fs = gcsfs.GCSFileSystem(
        endpoint_url=server.url, token="anon", use_listings_cache=False, skip_instance_cache=True
    )
    for n in range(5):
        fs.pipe(f"b/folder/{n}", b"%d" % n)
    with fs.open("b/folder/large", "wb", block_size=2**18) as file:
        for _ in range(3):
            file.write(b"x" * 2**18)
    assert fs.size("b/folder/large") == 3 * 2**18
    assert fs.cat("b/folder/3") == b"3"
    with fs.open("b/folder/large", "rb") as file:
        file.seek(2**18)
        assert file.read(3) == b"xxx"
    assert sorted(fs.ls("b/folder")) == [*(f"b/folder/{n}" for n in range(5)), "b/folder/large"]
    fs.cp_file("b/folder/1", "b/copy")
    assert fs.cat("b/copy") == b"1"
    fs.rm("b/folder", recursive=True)
    assert fs.find("b") == ["b/copy"]
    with pytest.raises(FileNotFoundError):
        fs.cat("b/folder/1")


def test_errors_read_as_googles(server: GcsServer, http: urllib3.PoolManager) -> None:
    """Errors carry Google's status, reason and message; errors of downloads are plain text."""
    path = f"{server.url}/storage/v1/b/b/o"
    absent = http.request("GET", f"{path}/no%2Fobject")
    assert (absent.status, reason(absent)) == (404, "notFound")
    assert absent.json()["error"]["message"] == "No such object: b/no/object"
    media = http.request("GET", f"{path}/no%2Fobject?alt=media")
    assert (media.status, media.data) == (404, b"No such object: b/no/object")
    upload(http, server, "name=a&ifGenerationMatch=0")
    lost = upload(http, server, "name=a&ifGenerationMatch=0")
    assert (lost.status, reason(lost)) == (412, "conditionNotMet")
    lost = upload(http, server, "name=new&ifGenerationMatch=5")
    assert (lost.status, reason(lost)) == (412, "conditionNotMet")
    bad = upload(http, server, "name=a&ifGenerationMatch=x")
    assert (bad.status, reason(bad)) == (400, "invalidParameter")
    assert upload(http, server, "").status == 400
    server.fault = lambda request: backend_error()
    broken = http.request("GET", f"{path}/a")
    assert (broken.status, reason(broken)) == (503, "backendError")


def test_a_download_tells_its_version(server: GcsServer, http: urllib3.PoolManager) -> None:
    """A download has generation, hashes, date and ETag as sent by storage.googleapis.com."""
    made = upload(http, server, "name=a", b"hello").json()
    url = f"{server.url}/storage/v1/b/b/o/a?alt=media"
    found = http.request("GET", url)
    assert found.headers["x-goog-generation"] == made["generation"]
    assert found.headers["x-goog-hash"] == f"crc32c={made['crc32c']},md5={made['md5Hash']}"
    assert found.headers["etag"] == made["etag"]
    assert found.headers["x-goog-stored-content-length"] == "5"
    assert found.headers["last-modified"].endswith(" GMT")
    assert made["md5Hash"] == "XUFAKrxLKna5cZ2REBfFkg=="
    assert base64.b64decode(made["etag"])[0] == 8
    same = http.request("GET", f"{url}&ifGenerationNotMatch={made['generation']}")
    assert (same.status, same.data) == (304, b"")
    assert http.request("GET", f"{url}&ifGenerationNotMatch=1").status == 200
    assert http.request("GET", url, headers={"If-None-Match": made["etag"]}).status == 304
    assert http.request("GET", f"{url}&generation=1").status == 404


@pytest.mark.parametrize(
    ("asked", "status", "body", "told"),
    [
        ("bytes=1-3", 206, b"123", "bytes 1-3/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=5-100", 206, b"56789", "bytes 5-9/10"),
        ("bytes=-100", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=3-1", 200, b"0123456789", None),
        ("nonsense", 200, b"0123456789", None),
    ],
)
def test_ranges(
    server: GcsServer,
    http: urllib3.PoolManager,
    asked: str,
    status: int,
    body: bytes | None,
    told: str | None,
) -> None:
    """Ranges are cut as RFC 9110 says, and 416 shows the size."""
    upload(http, server, "name=a", b"0123456789")
    url = f"{server.url}/storage/v1/b/b/o/a?alt=media"
    found = http.request("GET", url, headers={"Range": asked})
    assert found.status == status
    assert found.headers.get("content-range") == told
    assert body is None or found.data == body


def test_a_resumable_upload_stands_interruption(
    server: GcsServer, http: urllib3.PoolManager
) -> None:
    """The upload continues at the reported size; the condition is checked at the end."""
    start = f"{server.url}/upload/storage/v1/b/b/o?uploadType=resumable&name=a&ifGenerationMatch=0"
    place = http.request("POST", start).headers["location"]
    half = http.request("PUT", place, body=b"01234", headers={"Content-Range": "bytes 0-4/10"})
    assert (half.status, half.headers["range"]) == (308, "bytes=0-4")
    asked = http.request("PUT", place, headers={"Content-Range": "bytes */10"})
    assert (asked.status, asked.headers["range"]) == (308, "bytes=0-4")
    upload(http, server, "name=a")
    rest = {"Content-Range": "bytes 5-9/10"}
    assert http.request("PUT", place, body=b"56789", headers=rest).status == 412
    assert http.request("DELETE", f"{server.url}/storage/v1/b/b/o/a").status == 204
    done = http.request("PUT", place, body=b"56789", headers=rest)
    assert (done.status, done.json()["size"]) == (200, "10")


def test_a_corrupted_upload_is_refused(server: GcsServer, http: urllib3.PoolManager) -> None:
    """Data that does not match the hash sent with it gets 400, and is not stored."""
    url = f"{server.url}/upload/storage/v1/b/b/o?uploadType=media&name=a"
    bad = http.request("POST", url, body=b"x", headers={"X-Goog-Hash": "crc32c=AAAAAA=="})
    assert (bad.status, reason(bad)) == (400, "invalid")
    assert http.request("GET", f"{server.url}/storage/v1/b/b/o/a").status == 404


def test_partial_answers(server: GcsServer, http: urllib3.PoolManager) -> None:
    """`fields` limits the answer to the named fields, nested as Google nests them."""
    upload(http, server, "name=a")
    url = f"{server.url}/storage/v1/b/b/o?fields="
    assert http.request("GET", url + "items(name,size)").json() == {
        "items": [{"name": "a", "size": "1"}]
    }
    assert http.request("GET", url + "items/name,kind").json() == {
        "items": [{"name": "a"}],
        "kind": "storage#objects",
    }


def test_callers_are_told_apart(http: urllib3.PoolManager) -> None:
    """A missing or wrong token gets 401; a caller without the permission gets 403 by name."""
    reader = Caller(email="ada@example.com", permissions=frozenset({"storage.objects.get"}))
    with GcsServer("b", callers={"good": reader}) as server:
        url = f"{server.url}/storage/v1/b/b/o/a"
        assert reason(http.request("GET", url)) == "required"
        bad = http.request("GET", url, headers={"Authorization": "Bearer bad"})
        assert (bad.status, reason(bad)) == (401, "authError")
        good = {"Authorization": "Bearer good"}
        assert http.request("GET", url, headers=good).status == 404
        denied = http.request("DELETE", url, headers=good)
        assert (denied.status, reason(denied)) == (403, "forbidden")
        assert "ada@example.com does not have storage.objects.delete" in str(denied.json())


def test_fast_writes_of_one_object_are_slowed(http: urllib3.PoolManager) -> None:
    """A second write of one object within the pause gets 429; other objects are not affected."""
    with GcsServer("b", mutation_pause_s=60) as server:
        assert upload(http, server, "name=a").status == 200
        slowed = upload(http, server, "name=a")
        assert (slowed.status, reason(slowed)) == (429, "rateLimitExceeded")
        assert upload(http, server, "name=b").status == 200


@contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the server as a separate program."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.gcs", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        killed(process)


def test_it_runs_on_its_own() -> None:
    """`python -m tests.servers.gcs` prints its URL, serves, and ends on SIGTERM."""
    with program("--port", "0", "--bucket", "b") as process:
        assert process.stdout is not None
        name, _, url = process.stdout.readline().strip().partition("=")
        assert name == "STORAGE_EMULATOR_HOST"
        with urllib.request.urlopen(f"{url}/storage/v1/b/b/o") as answer:
            assert json.load(answer) == {"kind": "storage#objects"}
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_a_request_that_is_cut_in_its_head_does_nothing() -> None:
    """A connection that ends within the headers is not a request."""
    head = b"POST /upload/storage/v1/b/b/o?uploadType=media&name=a HTTP/1.1\r\nHost: x\r\n"
    with GcsServer("b") as server:
        port = int(server.url.rpartition(":")[2])
        for cut in (head, head + b"Content-Le"):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(cut)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(100) == b""
        assert not server.api.buckets["b"].blobs
