"""What users read when there is no way to a store's server, over its real libraries."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from bastion.errors import StoreError, StoreRefusedError
from bastion.store.gcs import GcsStore
from bastion.store.network_fault import fault_of
from bastion.store.port import ObjectStore
from bastion.store.s3 import S3Store
from tests.rigs.limits import joined, on_thread
from tests.servers.canned import canned
from tests.servers.s3 import credentials, free_port
from tests.servers.webhook import receiver

Opened: TypeAlias = Callable[[str, float], ObjectStore]

PATIENT_S = 60.0


def s3(url: str, deadline_s: float) -> ObjectStore:
    """Return a store of S3 at `url`."""
    return S3Store("b", endpoint_url=url, deadline_s=deadline_s)


def gcs(url: str, deadline_s: float) -> ObjectStore:
    """Return a store of Cloud Storage at `url`."""
    return GcsStore("b", credentials=None, endpoint=url, deadline_s=deadline_s)


both = pytest.mark.parametrize("opened", [s3, gcs])


def failure(opened: Opened, url: str, deadline_s: float = PATIENT_S) -> StoreError:
    """Return the error of a read."""
    with credentials(), pytest.raises(StoreError) as caught:
        opened(url, deadline_s).read("a")
    assert not isinstance(caught.value, StoreRefusedError)
    return caught.value


def told(opened: Opened, url: str, deadline_s: float = PATIENT_S) -> tuple[str, str]:
    """Return what is wrong, without what was to be done, and the hint."""
    error = failure(opened, url, deadline_s)
    begin = "s3://b: cannot read 'a': " if opened is s3 else "gs://b did not answer: "
    assert error.message.startswith(begin)
    return error.message.removeprefix(begin), error.hint


@contextmanager
def silent() -> Iterator[str]:
    """Provide the URL of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def without_tls() -> Iterator[str]:
    """Provide the URL of a server that answers in plain text as soon as it is sent a byte."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.recv(1)
                        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = on_thread(talk)
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    joined(thread)


@both
def test_a_server_that_does_not_run_is_named(opened: Opened) -> None:
    """The address is shown without the path of the request."""
    url = f"http://127.0.0.1:{free_port()}"
    what, hint = told(opened, url)
    assert what == f"{url} refuses connections"
    assert hint == "check the address and the port, and that the server runs"


@both
def test_a_name_without_an_address_is_named(opened: Opened) -> None:
    """No DNS knows names below `.invalid`."""
    what, hint = told(opened, "http://bastion.invalid:9000")
    assert what.startswith("the host name bastion.invalid was not found: ")
    assert "DNS" in hint


@both
def test_a_server_that_says_nothing_is_named(opened: Opened) -> None:
    """It may be overloaded."""
    with silent() as url:
        what, hint = told(opened, url, 0.2)
    assert what == f"{url} did not complete its answer in time"
    assert "the load of the server" in hint


@both
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\nETag: "a"\r\n'
        b"Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\nhalf",
    ],
    ids=["nothing", "half"],
)
def test_a_connection_that_breaks_is_a_sentence(opened: Opened, answer: bytes) -> None:
    """Users read it in `bastion status`."""
    with canned(answer) as url:
        assert told(opened, url)[0] == f"{url} closed the connection before its answer was complete"


@both
def test_another_protocol_is_named(opened: Opened) -> None:
    """The port may be that of another program."""
    with canned(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        what, hint = told(opened, url)
    assert what == f"{url} does not speak HTTP"
    assert hint == "check the address and the port"


@both
def test_a_page_is_not_taken_for_an_answer(opened: Opened) -> None:
    """A portal answers 200 with a page of its own."""
    with canned(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>") as url:
        error = failure(opened, url)
    assert f"{url} sent no answer of " in error.message
    assert "no proxy answers for it" in error.hint


@both
def test_https_to_a_server_without_tls_is_named(opened: Opened) -> None:
    """The usual mistake with a store on the own machine."""
    with without_tls() as url:
        what, hint = told(opened, url)
    assert what == f"{url} does not speak TLS"
    assert "write http://" in hint


@pytest.mark.parametrize(("opened", "name"), [(s3, "AWS_CA_BUNDLE"), (gcs, "SSL_CERT_FILE")])
def test_a_certificate_that_is_not_trusted_is_named(
    opened: Opened, name: str, tmp_path: Path
) -> None:
    """The hint has the variable that this store's library reads."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(words, check=True, capture_output=True)
    whole = tmp_path / "both.pem"
    whole.write_text(key.read_text() + cert.read_text())
    with receiver(certificate=whole) as there:
        what, hint = told(opened, there.url)
    assert what == f"the certificate of {there.url} is not trusted: self-signed certificate"
    assert f"set {name} to a file" in hint


@both
def test_a_proxy_that_does_not_run_is_named(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of the store is right; its password is shown to nobody."""
    proxy = f"127.0.0.1:{free_port()}"
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://ada:secret@{proxy}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    what, hint = told(opened, "http://store.invalid")
    assert what == f"over a proxy: http://{proxy} refuses connections"
    assert hint.startswith("check the proxy that HTTPS_PROXY or HTTP_PROXY names")


def test_an_error_of_the_system_keeps_its_words() -> None:
    """It has no class of its own."""
    found = fault_of(OSError(101, "Network is unreachable"), "https://s3.amazonaws.com/b")
    assert found.what == "no connection to https://s3.amazonaws.com: Network is unreachable"


def test_any_other_error_is_told_by_its_innermost_cause() -> None:
    """An error without words has its name."""
    outer = RuntimeError("pool")
    outer.__cause__ = ValueError("two\n lines")
    found = fault_of(outer, "https://x")
    assert found.what == "no valid answer from https://x: two lines"
    assert fault_of(KeyError(), "https://x").what.endswith(": KeyError")


@pytest.mark.parametrize("url", ["http://", "http://a b"])
def test_an_address_that_cannot_be_is_refused(url: str) -> None:
    """It never becomes right by waiting."""
    with credentials(), pytest.raises(StoreRefusedError, match="Invalid endpoint"):
        S3Store("b", endpoint_url=url)


def test_a_region_that_cannot_be_is_refused() -> None:
    """The hint names the places where it may be set."""
    with credentials(), pytest.raises(StoreRefusedError, match="region_name") as caught:
        S3Store("b", region_name="a b")
    assert "AWS_REGION" in caught.value.hint
