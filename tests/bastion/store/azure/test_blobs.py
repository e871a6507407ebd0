"""Azure's answers, and how the store treats them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bastion.errors import ConflictError, NotFoundError, StoreError, StoreRefusedError
from bastion.store.azure.blobs import AzureStore
from bastion.store.azure.caller import SharedKey
from bastion.store.port import Version
from tests.bastion.store.operations import OPERATIONS, failures
from tests.servers.azurite import KEY
from tests.servers.canned import canned

TAG = Version('"0x8D"')


@contextmanager
def saying(answer: bytes, *, heard: list[bytes] | None = None) -> Iterator[AzureStore]:
    """Provide a store whose server always returns the same."""
    with canned(answer, heard=heard) as url:
        yield AzureStore("lab", "c", "root", caller=SharedKey("lab", KEY), endpoint_url=url)


def answered(status: int, body: str, headers: str = "") -> bytes:
    data = body.encode()
    head = f"HTTP/1.1 {status} X\r\nConnection: close\r\n{headers}Content-Length: {len(data)}"
    return f"{head}\r\n\r\n".encode() + data


def error(status: int, code: str, detail: str = "") -> bytes:
    """Return an error as Azure writes it."""
    more = f"<AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail>" if detail else ""
    body = (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>why\nRequestId:1f\n"
        f"Time:2026-11-30T00:00:00Z</Message>{more}</Error>"
    )
    return answered(status, body)


@pytest.mark.parametrize(
    ("status", "code", "refused", "retry_after_s"),
    [
        (400, "InvalidHeaderValue", True, 0.0),
        (401, "InvalidAuthenticationInfo", True, 0.0),
        (403, "AuthorizationPermissionMismatch", True, 0.0),
        (403, "AuthenticationFailed", True, 0.0),
        (409, "BlobImmutableDueToPolicy", True, 0.0),
        (412, "LeaseIdMissing", True, 0.0),
        (409, "ContainerBeingDeleted", False, 0.0),
        (429, "TooManyRequests", False, 1.0),
        (500, "OperationTimedOut", False, 0.0),
        (503, "ServerBusy", False, 1.0),
    ],
)
def test_errors_are_told_apart(status: int, code: str, refused: bool, retry_after_s: float) -> None:
    """Permanent errors are refusals; temporary ones are not, and say how long to wait."""
    with saying(error(status, code)) as store:
        for failure in failures(store):
            assert isinstance(failure, StoreRefusedError) is refused
            assert failure.retry_after_s == retry_after_s
            assert f"{status} {code} why" in str(failure)
            assert "RequestId" not in str(failure)


def test_conditions_that_fail_are_conflicts() -> None:
    """A taken name is 409, another version 412, and a deleted object 404 for a swap."""
    with saying(error(409, "BlobAlreadyExists")) as store, pytest.raises(ConflictError):
        store.create("a", b"1")
    with saying(error(412, "ConditionNotMet")) as store:
        with pytest.raises(ConflictError):
            store.create("a", b"1")
        with pytest.raises(ConflictError):
            store.swap("a", b"1", if_version=TAG)
    with saying(error(404, "BlobNotFound")) as store:
        with pytest.raises(ConflictError):
            store.swap("a", b"1", if_version=TAG)
        with pytest.raises(NotFoundError):
            store.read("a")
        store.delete("a")


@pytest.mark.parametrize("code", ["", "ResourceNotFound"])
def test_only_a_missing_blob_is_an_absence(code: str) -> None:
    """A 404 that does not name the blob says nothing about any object."""
    answer = error(404, code) if code else answered(404, "<html>404</html>")
    with saying(answer) as store:
        for failure in failures(store):
            assert not isinstance(failure, StoreRefusedError | ConflictError)


def test_a_missing_container_is_refused_with_the_way_out() -> None:
    """Every operation reports the missing container, and how to create it."""
    with saying(error(404, "ContainerNotFound")) as store:
        for failure in failures(store):
            assert isinstance(failure, StoreRefusedError)
            assert "no container az://lab/c" in str(failure)
            assert failure.hint == (
                "run: az storage container create --account-name=lab --name=c --auth-mode=login"
            )


def test_a_clock_that_is_off_is_told() -> None:
    """A signature contains the time: Azure says in which way it is wrong."""
    with saying(error(403, "AuthenticationFailed", "Request date header too old: 'x'")) as store:
        for failure in failures(store):
            assert not isinstance(failure, StoreRefusedError)
            assert "set this machine's clock" in failure.hint


def test_a_create_that_is_refused_where_an_object_stands_is_a_conflict() -> None:
    """With the right to add blobs, but not to write them, the object that exists decides."""
    blob = answered(200, "x", 'ETag: "0x1"\r\nLast-Modified: Mon, 30 Nov 2026 00:00:00 GMT\r\n')
    refusal = error(403, "AuthorizationPermissionMismatch")
    answers = {b"PUT": refusal, b"GET": blob}
    with canned(lambda asked: answers[asked.partition(b" ")[0]]) as url:
        store = AzureStore("lab", "c", caller=SharedKey("lab", KEY), endpoint_url=url)
        with pytest.raises(ConflictError):
            store.create("a", b"1")
    with saying(refusal) as store, pytest.raises(StoreRefusedError, match="bastion setup azure"):
        store.create("a", b"1")


HALVES = {
    "a tag without its end": b'HTTP/1.1 201 X\r\nContent-Length: 0\r\nETag: "0x8D4',
    "no tag": b"HTTP/1.1 201 X\r\nContent-Length: 0\r\n\r\n",
    "no length": b'HTTP/1.1 201 X\r\nETag: "0x8D4"\r\nLast-Modified: x\r\n\r\n',
    "a portal": b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>hi</html>",
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n",
    "no list": answered(200, "<EnumerationResults/>"),
    "not http": b"SSH-2.0-OpenSSH_9.2\r\n",
}


@pytest.mark.parametrize("answer", HALVES.values(), ids=HALVES)
def test_half_an_answer_is_no_answer(answer: bytes) -> None:
    """An answer that Azure would not send leaves a write in doubt, and says nothing to a read."""
    with saying(answer) as store:
        for operation in OPERATIONS:
            with pytest.raises(StoreError) as caught:
                operation(store)
            assert not isinstance(caught.value, StoreRefusedError | ConflictError | NotFoundError)


def listed(*names: str, marker: str = "", more: str = "") -> bytes:
    """Return a list as Azure writes it."""
    properties = (
        "<Properties><Last-Modified>Mon, 30 Nov 2026 00:00:00 GMT</Last-Modified>"
        f"<Etag>0x8D</Etag><Content-Length>3</Content-Length>{more}</Properties>"
    )
    blobs = "".join(f"<Blob>{name}{properties}</Blob>" for name in names)
    return answered(
        200,
        f"<?xml version='1.0'?><EnumerationResults><Blobs>{blobs}</Blobs>"
        f"<NextMarker>{marker}</NextMarker></EnumerationResults>",
    )


def test_a_server_that_ignores_where_a_list_starts_is_served_too() -> None:
    """An older server lists from the first name, so earlier names are left out here."""
    names = [f"<Name>root/{name}</Name>" for name in ("a", "b", "c")]
    with saying(listed(*names)) as store:
        assert [entry.key for entry in store.list("", start_after="a")] == ["b", "c"]
        assert [entry.key for entry in store.list("", limit=2)] == ["a", "b"]


def test_what_is_no_key_is_left_out_of_lists() -> None:
    """Names that no key has are skipped, among them those that Azure itself had to quote."""
    others = ("root/a//b", "root/~zz", "root/ü", "root/a.", "root/b\\c", "elsewhere~4")
    names = [f"<Name>{name}</Name>" for name in others]
    names.append("<Name Encoded='true'>root/%EF%BF%BE</Name>")
    names.append("<Name>root/~C3~BC</Name>")
    with saying(listed(*names)) as store:
        (entry,) = store.list("")
    assert (entry.key, entry.version, entry.size) == ("ü", TAG, 3)


def test_an_account_that_sorts_by_folder_is_refused() -> None:
    """A hierarchical namespace lists folders too, and in another order than names."""
    names = ["<Name>root/a</Name>"]
    answer = listed(*names, more="<ResourceType>directory</ResourceType>")
    with saying(answer) as store, pytest.raises(StoreRefusedError, match="hierarchical") as caught:
        store.list("")
    assert "--hns=false" in caught.value.hint
