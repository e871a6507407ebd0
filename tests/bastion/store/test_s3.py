"""Amazon's answers, and how the store treats them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bastion.errors import ConflictError, NotFoundError, StoreError, StoreRefusedError
from bastion.store.port import Version
from bastion.store.s3 import S3Store
from tests.bastion.store.operations import OPERATIONS, failures
from tests.servers.canned import canned
from tests.servers.s3 import credentials, moto_server


@contextmanager
def saying(answer: bytes) -> Iterator[S3Store]:
    """Provide a store whose server always returns the same."""
    with canned(answer) as url, credentials():
        yield S3Store("b", endpoint_url=url)


def error(status: int, code: str) -> bytes:
    """Return an error as S3 writes it."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>why</Message></Error>"
    head = f"HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


@pytest.mark.parametrize(
    ("status", "code", "refused", "retry_after_s"),
    [
        (400, "InvalidBucketName", True, 0.0),
        (403, "AccessDenied", True, 0.0),
        (403, "InvalidAccessKeyId", True, 0.0),
        (409, "ConditionalRequestConflict", False, 0.0),
        (500, "InternalError", False, 0.0),
        (503, "SlowDown", False, 1.1),
        (429, "TooManyRequests", False, 1.1),
    ],
)
def test_errors_are_told_apart(status: int, code: str, refused: bool, retry_after_s: float) -> None:
    """Permanent errors are refusals; temporary ones are not, and say how long to wait."""
    with saying(error(status, code)) as store:
        for failure in failures(store):
            assert isinstance(failure, StoreRefusedError) is refused
            assert failure.retry_after_s == retry_after_s
            assert code in str(failure)


def test_a_refusal_names_the_end_of_the_callers_key() -> None:
    """All users see it in the status view; the hint is the command that identifies the key."""
    with saying(error(403, "AccessDenied")) as store:
        with pytest.raises(StoreRefusedError, match="access key that ends in TEST") as caught:
            store.read("a")
        assert "AKIA" not in str(caught.value)
        assert "aws sts get-caller-identity" in caught.value.hint
        assert "secret" not in str(caught.value) + caught.value.hint


def test_conditions_that_fail_are_conflicts() -> None:
    """412 is a conflict for both writes, and 404 for a swap: the object is gone."""
    with saying(error(412, "PreconditionFailed")) as store:
        with pytest.raises(ConflictError):
            store.create("a", b"1")
        with pytest.raises(ConflictError):
            store.swap("a", b"1", if_version=Version('"1"'))
    with saying(error(404, "NoSuchKey")) as store:
        with pytest.raises(ConflictError):
            store.swap("a", b"1", if_version=Version('"1"'))
        with pytest.raises(NotFoundError):
            store.read("a")
    with saying(error(404, "NotFound")) as store:
        for failure in failures(store):
            assert not isinstance(failure, StoreRefusedError)


@pytest.mark.parametrize(("has_bare_etags", "tag"), [(False, b'"1f"'), (True, b"1f")])
def test_etags_are_sent_bare_to_a_store_that_wants_them(has_bare_etags: bool, tag: bytes) -> None:
    """Ceph's gateway matches no ETag in quotes: a swap sends the bare tag."""
    heard: list[bytes] = []
    with canned(error(412, "PreconditionFailed"), heard=heard) as url, credentials():
        store = S3Store("b", endpoint_url=url, has_bare_etags=has_bare_etags)
        with pytest.raises(ConflictError):
            store.swap("a", b"1", if_version=Version('"1f"'))
    assert b"\r\nIf-Match: " + tag + b"\r\n" in heard[0]


def test_a_missing_bucket_is_refused_with_the_way_out() -> None:
    """Every operation reports the missing bucket, and how to create it."""
    with moto_server() as url, credentials():
        for failure in failures(S3Store("nowhere", endpoint_url=url)):
            assert isinstance(failure, StoreRefusedError)
            assert "no bucket s3://nowhere" in str(failure)
            assert failure.hint == "run: aws s3 mb s3://nowhere"


def test_no_credentials_are_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no credentials can be found, the error says where to look."""
    with credentials():
        for name in [name for name in os.environ if "AWS_ACCESS" in name or "AWS_SECRET" in name]:
            monkeypatch.delenv(name)
        for failure in failures(S3Store("b", endpoint_url="http://127.0.0.1:9")):
            assert isinstance(failure, StoreRefusedError)
            assert "aws configure" in failure.hint


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: "9dd4e4612',
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>hi</html>",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_half_an_answer_to_a_write_is_no_answer(answer: bytes) -> None:
    """A put whose ETag is missing or cut short is in doubt, not done."""
    with saying(answer) as store:
        for operation in OPERATIONS[:2]:
            with pytest.raises(StoreError) as caught:
                operation(store)
            assert not isinstance(caught.value, StoreRefusedError)


@pytest.mark.parametrize(
    ("status", "refused"), [(301, True), (308, True), (302, False), (307, False)]
)
def test_a_redirect_that_is_not_of_s3_is_told(status: int, refused: bool) -> None:
    """A proxy that wants https, or a portal: botocore asked it for a region forever."""
    head = f"HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 0\r\n"
    with saying(f"{head}Location: https://portal/\r\n\r\n".encode()) as store:
        for failure in failures(store):
            assert isinstance(failure, StoreRefusedError) is refused
            assert f"{status}, a redirect to https://portal/" in str(failure)
            assert "endpoint_url" in failure.hint


def found(headers: str, body: str) -> bytes:
    """Return an answer with what S3 says of an object."""
    day = "Mon, 30 Nov 2026 12:00:00 GMT"
    return f'HTTP/1.1 200 OK\r\nLast-Modified: {day}\r\nETag: "1"\r\n{headers}{body}'.encode()


def listed(entry: str, rest: str) -> bytes:
    """Return a list of one entry, as S3 writes it."""
    body = f"<ListBucketResult><Contents><Key>x</Key>{entry}</Contents>{rest}</ListBucketResult>"
    return found(f"Content-Length: {len(body)}\r\n\r\n", body)


TIME = "<LastModified>2026-11-30T12:00:00.000Z</LastModified>"
HALVES = {
    "cut in the headers": found("Content-Ty", ""),
    "cut behind the headers": found("\r\n", ""),
    "no length": found("\r\n", "half of"),
    "an empty page": found("Content-Length: 0\r\n\r\n", ""),
    "another document": found("Content-Length: 4\r\n\r\n", "<a/>"),
    "no ETag": listed(f"{TIME}<Size>1</Size>", "<IsTruncated>false</IsTruncated>"),
    "no next page": listed(
        f'{TIME}<ETag>"1"</ETag><Size>1</Size>', "<IsTruncated>true</IsTruncated>"
    ),
}


@pytest.mark.parametrize("answer", HALVES.values(), ids=HALVES)
def test_half_an_answer_to_a_list_is_no_empty_list(answer: bytes) -> None:
    """An output that is listed as empty would be restored as empty, and lost."""
    with saying(answer) as store, pytest.raises(StoreError) as caught:
        store.list("")
    assert not isinstance(caught.value, StoreRefusedError)


@pytest.mark.parametrize("answer", list(HALVES.values())[:3], ids=list(HALVES)[:3])
def test_half_an_answer_to_a_read_is_no_object(answer: bytes) -> None:
    """A connection that breaks within the headers makes them look complete, and the body empty."""
    with saying(answer) as store:
        for unless in (None, Version('"2"')):
            with pytest.raises(StoreError):
                store.read("a", unless=unless)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "RequestTimeout"),
        (400, "IncompleteBody"),
        (400, "BadDigest"),
        (400, "ThrottlingException"),
        (400, "PriorRequestNotComplete"),
        (400, "ExpiredToken"),
        (403, "RequestThrottled"),
        (403, "RequestTimeTooSkewed"),
    ],
)
def test_refusals_that_pass_are_told_from_those_that_stay(status: int, code: str) -> None:
    """If the same request may be accepted later, it is a fault, and is retried."""
    with saying(error(status, code)) as store:
        for failure in failures(store):
            assert not isinstance(failure, StoreRefusedError)
            assert ("clock" in failure.hint) is (code == "RequestTimeTooSkewed")
