"""One notification over real HTTP: what counts as accepted, and where nothing is ever sent."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bastion.records.settings.webhooks import Webhook
from bastion.service.act.webhook import DeliveryError, post
from tests.rigs.limits import PATIENCE_S
from tests.servers.canned import canned
from tests.servers.webhook import receiver

BODY = b'{"schema":1}'


def failure(url: str, *, near: bool = True, timeout_s: float = 10.0) -> DeliveryError:
    """Return the error of a delivery to `url`."""
    with pytest.raises(DeliveryError) as caught:
        post(Webhook(url=url, may_be_near=near), BODY, "id-1", timeout_s=timeout_s)
    return caught.value


def test_a_body_is_posted_as_json_with_its_id() -> None:
    """Path and query are those of the URL, the headers name the sender, and 204 is accepted."""
    with receiver() as there:
        there.answers = [204]
        post(Webhook(url=f"{there.url}/a/b?c=d", may_be_near=True), BODY, "id-1")
    assert there.paths == ["/a/b?c=d"]
    assert there.bodies == [{"schema": 1}]
    (headers,) = there.headers
    assert headers["Bastion-Notification"] == "id-1"
    assert headers["Content-Type"].startswith("application/json")
    assert headers["User-Agent"].startswith("bastion/")


def test_a_url_may_lie_in_a_file(tmp_path: Path) -> None:
    """It is read for every delivery, so it can be changed at any time."""
    file = tmp_path / "url"
    with receiver() as there:
        file.write_text(f"{there.url}/first\n")
        hook = Webhook(url_file=str(file), may_be_near=True)
        post(hook, BODY, "id-1")
        file.write_text(f"{there.url}/second")
        post(hook, BODY, "id-2")
    assert there.paths == ["/first", "/second"]
    file.write_text("no url, and a secret")
    with pytest.raises(DeliveryError) as caught:
        post(hook, BODY, "id-3")
    assert "secret" not in caught.value.message
    with pytest.raises(DeliveryError, match="No such file"):
        post(Webhook(url_file=str(tmp_path / "none")), BODY, "id-4")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (500, "answered 500 Internal Server Error"),
        (404, "answered 404 Not Found"),
        ("reset", "Connection reset by peer"),
    ],
)
def test_anything_but_2xx_is_a_failure(answer: int | str, text: str) -> None:
    """A status other than 2xx and a cut connection are named in the error."""
    with receiver() as there:
        there.answers = [answer]
        assert failure(there.url).message == text


def test_a_webhook_may_ask_for_a_wait() -> None:
    """Retry-After in seconds is respected, up to an hour; a date is not."""
    with receiver() as there:
        there.answers = [(429, {"Retry-After": "30"}), (503, {"Retry-After": "999999"})]
        there.answers += [(503, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})]
        waits = [failure(there.url).retry_after_s for _ in range(3)]
    assert waits == [30.0, 3600.0, 0.0]


def test_redirects_are_not_followed() -> None:
    """A redirect is not followed to another host, nor to the same one."""
    with receiver() as there, receiver() as elsewhere:
        there.answers = [(302, {"Location": elsewhere.url})]
        told = failure(there.url)
    assert told.message == "answered 302 Found: redirects are not followed"
    assert not elsewhere.bodies


def test_a_webhook_that_hangs_is_cut() -> None:
    """One deadline applies to the whole answer, whether it is silent or drips byte by byte."""
    with receiver() as there:
        there.answers = ["hang"]
        assert failure(there.url, timeout_s=0.2).message == "no answer within 0.2 s"
    with canned(b"HTTP/1.1 2", drip=b"0") as url:
        assert failure(url, timeout_s=0.2).message == "no answer within 0.2 s"


def test_a_status_of_200_counts_without_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers that drip forever after a status of 200 are cut off, and the delivery counts."""
    deadlines: list[threading.Timer] = []

    class Deadline(threading.Timer):
        """A deadline from the first drip on: a loaded machine needs seconds to get that far."""

        def __init__(self, _interval: float, cut: Callable[[], None]) -> None:
            super().__init__(0.1, cut)

        def start(self) -> None:
            deadlines.append(self)

    def begin() -> None:
        while deadlines:
            threading.Thread.start(deadlines.pop())

    monkeypatch.setattr(threading, "Timer", Deadline)
    with canned(b"HTTP/1.1 200 OK\r\nA: ", drip=b"b", on_drip=begin) as url:
        post(Webhook(url=url, may_be_near=True), BODY, "id-1", timeout_s=PATIENCE_S)


def test_an_answer_that_is_not_http_is_an_error() -> None:
    """A server of another protocol breaks nothing."""
    with canned(b"SSH-2.0-OpenSSH\r\n") as url:
        assert failure(url).message.endswith("its answer is not HTTP")


def test_a_port_without_a_server_is_an_error() -> None:
    """A port without a server is refused."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert failure(url).message == "Connection refused"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]"])
def test_a_users_url_never_leads_to_this_machine(host: str) -> None:
    """The address is checked in every notation, after the name is resolved."""
    with receiver() as there:
        port = there.url.rpartition(":")[2]
        told = failure(f"http://{host}:{port}/", near=False)
    assert "an address of this machine or a private network" in told.message
    assert "allow_hosts" in told.hint
    assert not there.bodies


def test_an_unknown_host_is_an_error() -> None:
    """A name that does not exist has no address."""
    assert failure("https://nobody.invalid/secret").message.startswith(
        "nobody.invalid has no address"
    )


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a self-signed certificate of localhost, with its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    words += ["-keyout", str(key), "-out", str(cert)]
    subprocess.run(words, check=True, capture_output=True)
    both.write_text(key.read_text() + cert.read_text())
    return both


def test_tls_is_checked_against_the_name(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An untrusted certificate is refused; a trusted one with exactly that name is accepted."""
    with receiver(certificate=certificate) as there:
        assert "its certificate is not valid: self" in failure(there.url).message
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.parent / "cert.pem"))
        post(Webhook(url=f"{there.url}/secure", may_be_near=True), BODY, "id-1")
        wrong = there.url.replace("localhost", "127.0.0.1")
        assert "its certificate is not valid" in failure(wrong).message
    assert there.paths == ["/secure"]


def test_a_handshake_that_hangs_is_cut() -> None:
    """The deadline includes the TLS handshake."""
    with canned(b"", drip=b"\x16\x03\x01\x40\x00") as url:
        secure = url.replace("http:", "https:")
        assert failure(secure, timeout_s=0.2).message == "no answer within 0.2 s"
