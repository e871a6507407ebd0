"""
What is wrong between this machine and a server, in words, and what to check.

botocore and urllib3 wrap the cause in exceptions of their own, whose texts are made for logs of
programs. The kind is found by the names of their classes: neither needs to be installed.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from bastion.errors import BastionError
from bastion.store.roads import proxy_of
from bastion.value import value

_E = TypeVar("_E", bound=BaseException)

_TRY_AGAIN = "try again; if it happens again, check proxies and load balancers on the way"


@value
class NetworkFault:
    """Why a request got no answer."""

    what: str
    """One clause that names the server."""
    hint: str
    """What to check."""


def fault_of(error: Exception, url: str, *, authorities: str = "SSL_CERT_FILE") -> NetworkFault:
    """
    Return why a request to the server at `url` got no answer, from the `error` of its library.

    Args:
        error: What the library raised.
        url: Only its scheme, host and port are shown: a URL can hold a password.
        authorities: The variable that names a file with the certificates of authorities.
    """
    chain = tuple(_chain(error))
    if _has(chain, "ProxyError", "ProxyConnectionError"):
        found = _fault(chain, proxy_of(url) or url, authorities)
        return NetworkFault(
            what=f"over a proxy: {found.what}",
            hint="check the proxy that HTTPS_PROXY or HTTP_PROXY names; NO_PROXY lists hosts that"
            " need none",
        )
    return _fault(chain, url, authorities)


def _fault(chain: Sequence[BaseException], url: str, authorities: str) -> NetworkFault:
    server, host = _server(url), urlsplit(url).hostname or url
    if unknown := _first(chain, socket.gaierror):
        return NetworkFault(
            what=f"the host name {host} was not found: {unknown.strerror or unknown}",
            hint="check the name, and the DNS and the network of this machine",
        )
    if _first(chain, ssl.SSLError):
        return _fault_of_tls(chain, server, authorities)
    if _first(chain, ConnectionRefusedError):
        return NetworkFault(
            what=f"{server} refuses connections",
            hint="check the address and the port, and that the server runs",
        )
    if _has(chain, "ConnectTimeoutError"):
        return NetworkFault(
            what=f"no connection to {server} in time",
            hint="check the address, the network of this machine, and firewalls on the way",
        )
    if _has(chain, "ReadTimeoutError", "TimeoutError"):
        return NetworkFault(
            what=f"{server} did not complete its answer in time",
            hint="check the load of the server and the network to it, or try again later",
        )
    if _first(chain, http.client.BadStatusLine) and not _first(chain, ConnectionError):
        return NetworkFault(
            what=f"{server} does not speak HTTP", hint="check the address and the port"
        )
    if _is_cut(chain):
        return NetworkFault(
            what=f"{server} closed the connection before its answer was complete", hint=_TRY_AGAIN
        )
    if cause := _first(chain, OSError):
        return NetworkFault(
            what=f"no connection to {server}: {cause.strerror or _text(chain)}",
            hint="check the network of this machine",
        )
    return NetworkFault(what=f"no valid answer from {server}: {_text(chain)}", hint=_TRY_AGAIN)


def _fault_of_tls(chain: Sequence[BaseException], server: str, authorities: str) -> NetworkFault:
    if untrusted := _first(chain, ssl.SSLCertVerificationError):
        return NetworkFault(
            what=f"the certificate of {server} is not trusted: {untrusted.verify_message}",
            hint="check the address and this machine's clock; for an authority of your own, set"
            f" {authorities} to a file with its certificate",
        )
    failed = _first(chain, ssl.SSLError)
    reason = (failed.reason if failed else "") or _text(chain)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return NetworkFault(
            what=f"{server} does not speak TLS",
            hint="check the port; for a server without TLS write http://",
        )
    return NetworkFault(
        what=f"no TLS connection to {server}: {reason.replace('_', ' ').lower()}",
        hint="check that the server, and any proxy on the way, speaks TLS 1.2 or later",
    )


def _is_cut(chain: Sequence[BaseException]) -> bool:
    """Whether the connection ended within an answer, or before it."""
    named = ("ConnectionClosedError", "IncompleteReadError", "ResponseStreamingError")
    return _has(chain, *named) or bool(
        _first(chain, ConnectionError) or _first(chain, http.client.HTTPException)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, outermost first, each once."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop(0)
        if id(each) in seen or isinstance(each, BastionError):
            continue
        seen.add(id(each))
        yield each
        within = (*each.args, getattr(each, "reason", None), each.__cause__, each.__context__)
        left += [cause for cause in within if isinstance(cause, BaseException)]


def _first(chain: Sequence[BaseException], kind: type[_E]) -> _E | None:
    return next((each for each in chain if isinstance(each, kind)), None)


def _has(chain: Sequence[BaseException], *names: str) -> bool:
    return any(type(each).__name__ in names for each in chain)


def _text(chain: Sequence[BaseException]) -> str:
    """Return the text of the innermost cause that has one."""
    texts = (" ".join(str(each).split()) for each in reversed(chain))
    return next(filter(None, texts), type(chain[0]).__name__)


def _server(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
