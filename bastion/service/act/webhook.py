"""
One notification sent to one webhook over HTTP, with a deadline for all of it.

The bastion runs in a private network, so a URL from a user must not reach hosts there. The host
name is resolved here, every address is checked, and the connection goes to a checked address.
Redirects are not followed, and proxies from the environment are not used. Only the status and
`Retry-After` of a response are read.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from bastion.errors import BastionError
from bastion.records.settings.webhooks import Webhook, is_near
from bastion.spec.notify import url_problems
from bastion.version import VERSION

DEADLINE_S = 10.0
"""From the first packet to the status: Slack answers in well under a second."""
MAX_RETRY_AFTER_S = 3600.0


class DeliveryError(BastionError):
    """
    A webhook did not accept a notification; the delivery is retried.

    Args:
        retry_after_s: The shortest wait before the retry, as the webhook asked; 0 if it did not
            ask.
    """

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


def post(webhook: Webhook, body: bytes, identity: str, *, timeout_s: float = DEADLINE_S) -> None:
    """
    Send `body` to `webhook`, and return once it has answered with a 2xx status.

    Args:
        webhook: The receiver.
        body: JSON.
        identity: The id of the notification: the same for every retry.
        timeout_s: For everything after the host is resolved.

    Raises:
        DeliveryError: It answered otherwise or not at all, or its address is not allowed. The text
            never contains the URL.
    """
    parts = _parts(webhook)
    connection = _Connection(parts, _addresses(parts, webhook), timeout_s)
    path = parts.path or "/"
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": f"bastion/{VERSION}",
        "Bastion-Notification": identity,
        "Connection": "close",
    }
    try:
        connection.request("POST", f"{path}?{parts.query}" if parts.query else path, body, headers)
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException, ValueError) as error:
        is_late = connection.is_late or isinstance(error, TimeoutError)
        why = f"no answer within {timeout_s:g} s" if is_late else _words(error)
        raise DeliveryError(why) from None
    finally:
        connection.close()
    _check(answer)


def _check(answer: http.client.HTTPResponse) -> None:
    if 200 <= answer.status < 300:
        return
    phrase = http.client.responses.get(answer.status, "")
    text = f"answered {answer.status} {phrase}".strip()
    if 300 <= answer.status < 400:
        raise DeliveryError(f"{text}: redirects are not followed", hint="name its final URL")
    wait = answer.headers.get("Retry-After", "").strip()
    wait_s = min(float(wait), MAX_RETRY_AFTER_S) if wait.isdecimal() and wait.isascii() else 0.0
    raise DeliveryError(text, retry_after_s=wait_s)


def _parts(webhook: Webhook) -> SplitResult:
    url = webhook.url
    if webhook.url_file:
        try:
            url = Path(webhook.url_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DeliveryError(f"url_file {webhook.url_file}: {_words(error)}") from None
    problems = url_problems("its URL", url)
    if problems:
        raise DeliveryError("; ".join(problems))
    return urlsplit(url)


def _addresses(parts: SplitResult, webhook: Webhook) -> list[str]:
    """Resolve the host, and return its addresses if all of them are allowed."""
    host = parts.hostname
    assert host is not None, "checked with the URL"
    try:
        found = socket.getaddrinfo(host, _port(parts), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DeliveryError(f"{host} has no address: {_words(error)}") from None
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    near = [address for address in addresses if is_near(address)]
    if near and not webhook.may_be_near:
        raise DeliveryError(
            f"{host} is {near[0]}, an address of this machine or a private network",
            hint="an admin may allow it: allow_hosts under [notifications] in config/bastion.toml",
        )
    return addresses


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"{type(error).__name__}: its answer is not HTTP"


class _Connection(http.client.HTTPConnection):
    """A connection to one of the checked addresses, which is cut at a deadline."""

    def __init__(self, parts: SplitResult, addresses: list[str], timeout_s: float) -> None:
        super().__init__(parts.hostname or "", _port(parts), timeout=timeout_s)
        self._addresses = addresses
        self._is_secure = parts.scheme == "https"
        self._timer = threading.Timer(timeout_s, self._cut)
        self._timer.daemon = True
        self.is_late = False
        self.default_port = 443 if self._is_secure else 80

    def connect(self) -> None:
        """Open the connection; the deadline includes the TLS handshake."""
        self._timer.start()
        self.sock = self._connect_any()
        if self._is_secure:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            self.sock.do_handshake()

    def close(self) -> None:
        """Close the connection and cancel its deadline."""
        self._timer.cancel()
        super().close()

    def _connect_any(self) -> socket.socket:
        for address in self._addresses[:-1]:
            with contextlib.suppress(OSError):
                return socket.create_connection((address, self.port), self.timeout)
        return socket.create_connection((self._addresses[-1], self.port), self.timeout)

    def _cut(self) -> None:
        self.is_late = True
        if self.sock is not None:
            with contextlib.suppress(OSError):
                # The plain socket: the TLS layer must not be closed from another thread.
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
