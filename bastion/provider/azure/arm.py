"""
Requests to Azure Resource Manager, over its REST API.

They are made with urllib3 and azure-identity, by the same parts as those to Azure Blob Storage.
Each is sent once and has a deadline. Pages and operations are followed only to the same server,
because each request carries a token.

Source: Azure Resource Manager, "Track asynchronous Azure operations".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from bastion.clock import Clock
from bastion.errors import (
    ProviderRefusedError,
    ProviderUnavailableError,
    StoreError,
    StoreRefusedError,
)
from bastion.provider.azure.verdicts import Failure, failure_of, of_operation, verdict
from bastion.store.azure.caller import Caller, Token, default_credential
from bastion.store.azure.signed import send_signed
from bastion.store.exchange import Answer, Exchange
from bastion.value import value

PUBLIC = "https://management.azure.com"
CALL_S = 30.0
"""Longest time from a request to the end of its answer."""
LOOK_S = 2.0
"""Between two looks at an operation."""
_MOST_PAGES = 1000

Json = dict[str, Any]


@value
class Said:
    """One answer of success."""

    body: Mapping[str, Any]
    operation: str
    """URL of the operation that the request started; empty if it is over."""


class Arm:
    """
    Requests about one resource group.

    Args:
        subscription: The id of the subscription.
        resource_group: The name of the group.
        clock: Waits between looks at an operation.
        endpoint: The server, if it is not that of Azure's public cloud. A server without TLS gets
            no credentials other than `caller`.
        caller: Signs the requests; None: the identity of this machine or user.
    """

    def __init__(
        self,
        *,
        subscription: str,
        resource_group: str,
        clock: Clock,
        endpoint: str = "",
        caller: Caller | None = None,
    ) -> None:
        self._server = endpoint.rstrip("/") or PUBLIC
        self.subscription = subscription
        self.group = f"/subscriptions/{subscription}/resourceGroups/{resource_group}"
        self.clock = clock
        self._caller = caller
        self._opening = threading.Lock()
        self._exchange: Exchange | None = None

    def call(
        self,
        method: str,
        path: str,
        what: str,
        *,
        version: str,
        body: Json | None = None,
        headers: Mapping[str, str] = {},
        **query: str,
    ) -> Said:
        """
        Send one request about a resource of the group, and return the answer.

        Args:
            method: The method of HTTP.
            path: What follows the resource group, such as `/providers/...`.
            what: What is being done, for error messages.
            version: The version of the API.
            body: What is sent, if anything.
            headers: Further headers.
            query: Further parameters.

        Raises:
            ProviderError: Depends on Azure's answer; see `verdict`.
        """
        said = self.ask(method, path, what, version=version, body=body, headers=headers, **query)
        if isinstance(said, Failure):
            raise verdict(said, what)
        return said

    def ask(
        self,
        method: str,
        path: str,
        what: str,
        *,
        version: str,
        body: Json | None = None,
        headers: Mapping[str, str] = {},
        **query: str,
    ) -> Said | Failure:
        """Do the same as `call`, but return a failure that Azure reports."""
        asked = urlencode({"api-version": version, **query})
        url = f"{self._server}{self.group}{path}?{asked}"
        data = None if body is None else json.dumps(body).encode()
        return self._send(method, url, what, data, headers)

    def pages(self, path: str, what: str, *, version: str) -> Iterator[Mapping[str, Any]]:
        """Yield every entry of a list; see `call` for what it raises."""
        said: Said | Failure = self.call("GET", path, what, version=version)
        for _ in range(_MOST_PAGES):
            if isinstance(said, Failure):
                raise verdict(said, what)
            yield from said.body.get("value", ())
            link = said.body.get("nextLink") or ""
            if not link:
                return
            said = self._send("GET", self._own(link, what), what, None, {})
        raise ProviderUnavailableError(f"{what}: more than {_MOST_PAGES} pages")

    def outcome(self, operation: str, what: str, *, until: float) -> Failure | None:
        """
        Wait for an operation; return its failure, or None if it succeeded or still runs.

        Args:
            operation: Its URL; empty: it is over.
            what: What is being done, for error messages.
            until: How long to wait, by the monotonic clock.
        """
        while operation:
            said = self._send("GET", self._own(operation, what), what, None, {})
            if isinstance(said, Failure):
                if said.status in (403, 404):
                    break  # it is forgotten, or must not be seen
                raise verdict(said, what)
            failure = of_operation(said.body)
            if failure is not None or said.body.get("status") == "Succeeded":
                return failure
            if self.clock.monotonic() >= until:
                break  # a list shows the result
            self.clock.sleep(LOOK_S)
        return None

    def _own(self, url: str, what: str) -> str:
        """Return a URL that Azure named, if it is on the same server."""
        if not url.startswith(f"{self._server}/"):
            raise ProviderUnavailableError(
                f"{what}: {self._server} refers to another server: {url[:100]}",
                hint="set options.endpoint_url of the pool to the server of your cloud",
            )
        return url

    def _send(
        self, method: str, url: str, what: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Said | Failure:
        try:
            answer = self._answer(method, url, data, headers)
        except StoreRefusedError as error:
            raise ProviderRefusedError(f"{what}: {error.message}", hint=error.hint) from error
        except StoreError as error:
            raise ProviderUnavailableError(f"{what}: {error.message}", hint=error.hint) from error
        if answer.status >= 300:
            return failure_of(answer.status, answer.headers, answer.body)
        try:
            body = json.loads(answer.body or b"{}")
        except (ValueError, RecursionError) as error:
            raise ProviderUnavailableError(f"{what}: Azure's answer is not JSON") from error
        if not isinstance(body, dict):
            raise ProviderUnavailableError(f"{what}: Azure sent an invalid answer: {body!r:.100}")
        return Said(body=body, operation=answer.headers.get("azure-asyncoperation", ""))

    def _answer(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        caller, exchange = self._open()
        asked = dict(headers) | ({} if data is None else {"Content-Type": "application/json"})
        if caller is None:
            return exchange.send(method, url, asked, data)
        return send_signed(exchange, caller, method, url, asked, data)

    def _open(self) -> tuple[Caller | None, Exchange]:
        """Return the identity and the connections, which the first request makes."""
        with self._opening:
            try:
                if self._exchange is None:
                    self._exchange = Exchange("Azure Resource Manager", self._server, CALL_S)
                if self._caller is None and not self._server.startswith("http://"):
                    scope = f"{self._server}/.default"
                    self._caller = Token(default_credential(), self.clock, scope=scope)
            except ImportError as error:
                raise ProviderRefusedError(
                    f"Azure's machines need packages that are not installed: {error.name}",
                    hint="run: pip install 'bastion-orchestrator[azure]' where the bastion runs",
                ) from error
            return self._caller, self._exchange
