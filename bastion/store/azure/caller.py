"""
The identity that requests to Azure are made with, found as by Azure's own tools.

The variables of the `az` command come first: `AZURE_STORAGE_CONNECTION_STRING`,
`AZURE_STORAGE_KEY` and `AZURE_STORAGE_SAS_TOKEN`. Without them, azure-identity finds a service
principal, a workload identity, a managed identity or the user of `az login`.

Source: Azure Storage REST API, "Authorize with Shared Key"; azure-identity, DefaultAzureCredential.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import threading
from collections.abc import Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, urlsplit

from bastion.clock import Clock, SystemClock
from bastion.errors import StoreError, StoreRefusedError

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

STORAGE = "https://storage.azure.com/.default"
"""The scope of tokens for storage."""
_RENEW_S = 300.0
"""A token is replaced this long before it expires."""

_SIGNED = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)
"""The headers that a signature contains beside Azure's own, in this order."""


class Caller(Protocol):
    """An identity that signs requests."""

    @property
    def name(self) -> str:
        """The identity in an error message, without secrets."""
        ...

    def signed(
        self, method: str, url: str, headers: Mapping[str, str], /
    ) -> tuple[str, dict[str, str]]:
        """
        Return the URL and the headers of a signed request.

        Raises:
            StoreError: No token can be had now.
            StoreRefusedError: There are no credentials.
        """
        ...

    def renew(self) -> bool:
        """Discard a token that Azure refused; whether another one can be had."""
        ...


class SharedKey:
    """
    The key of a storage account, which allows everything in it.

    Args:
        account: The name of the account.
        key: In base64, as Azure shows it.

    Raises:
        StoreRefusedError: `key` is not base64.
    """

    def __init__(self, account: str, key: str) -> None:
        self.name = f"the key of account {account}"
        self._account = account
        try:
            self._key = base64.b64decode(key, validate=True)
        except ValueError:
            raise StoreRefusedError(
                f"the key of storage account {account} is not base64",
                hint="check AZURE_STORAGE_KEY or AZURE_STORAGE_CONNECTION_STRING",
            ) from None

    def signed(
        self, method: str, url: str, headers: Mapping[str, str], /
    ) -> tuple[str, dict[str, str]]:
        """See the protocol."""
        given = {**headers, "x-ms-date": formatdate(SystemClock().wall(), usegmt=True)}
        low = {name.lower(): value for name, value in given.items()}
        if low.get("content-length") == "0":
            del low["content-length"]
        parts = urlsplit(url)
        own = sorted(name for name in low if name.startswith("x-ms-"))
        query = sorted(
            (name.lower(), value) for name, value in parse_qsl(parts.query, keep_blank_values=True)
        )
        text = "\n".join(
            [
                method,
                *(low.get(name, "") for name in _SIGNED),
                *(f"{name}:{low[name]}" for name in own),
                f"/{self._account}{parts.path}",
                *(f"{name}:{value}" for name, value in query),
            ]
        )
        mac = base64.b64encode(hmac.new(self._key, text.encode(), hashlib.sha256).digest())
        return url, {**given, "Authorization": f"SharedKey {self._account}:{mac.decode()}"}

    def renew(self) -> bool:
        """See the protocol."""
        return False


class SharedAccess:
    """A shared access signature: a query that is added to each request."""

    def __init__(self, account: str, token: str) -> None:
        self.name = f"the shared access signature for account {account}"
        self._token = token.removeprefix("?")

    def signed(
        self, _method: str, url: str, headers: Mapping[str, str], /
    ) -> tuple[str, dict[str, str]]:
        """See the protocol."""
        return f"{url}{'&' if '?' in url else '?'}{self._token}", dict(headers)

    def renew(self) -> bool:
        """See the protocol."""
        return False


class Token:
    """
    An identity of Microsoft Entra.

    Args:
        credential: Provides tokens.
        clock: Measures how long a token lasts.
        scope: What the tokens are for.
    """

    name = "this identity"

    def __init__(self, credential: TokenCredential, clock: Clock, *, scope: str = STORAGE) -> None:
        self._credential = credential
        self._scope = scope
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0
        self._has_worked = False

    def signed(
        self, _method: str, url: str, headers: Mapping[str, str], /
    ) -> tuple[str, dict[str, str]]:
        """See the protocol."""
        return url, {**headers, "Authorization": f"Bearer {self._current()}"}

    def renew(self) -> bool:
        """See the protocol."""
        with self._lock:
            self._token = ""
        return True

    def _current(self) -> str:
        with self._lock:
            if not self._token or self._clock.monotonic() >= self._renew_at:
                self._token = self._fetched()
            return self._token

    def _fetched(self) -> str:
        from azure.core.exceptions import AzureError

        try:
            given = self._credential.get_token(self._scope)
        except (AzureError, OSError) as error:
            why = str(error).strip().splitlines()[0]
            if self._has_worked:
                raise StoreError(f"no token from Azure: {why}") from error
            raise StoreRefusedError(
                f"there are no Azure credentials here: {why}",
                hint="run: az login; on a machine of Azure, assign it a managed identity",
            ) from error
        self._has_worked = True
        lasts_s = given.expires_on - self._clock.wall()
        self._renew_at = self._clock.monotonic() + max(lasts_s - _RENEW_S, 0.0)
        return given.token


def default_caller(account: str) -> Caller:
    """
    Return the identity of this machine or user for a storage account.

    Raises:
        StoreRefusedError: A variable that names one is malformed.
    """
    environ = os.environ
    given = _connection(environ.get("AZURE_STORAGE_CONNECTION_STRING", ""))
    if environ.get("AZURE_STORAGE_ACCOUNT", account) == account:
        given = {
            "accountname": account,
            "accountkey": environ.get("AZURE_STORAGE_KEY", ""),
            "sharedaccesssignature": environ.get("AZURE_STORAGE_SAS_TOKEN", ""),
            **given,
        }
    if given.get("accountname") == account:
        if key := given.get("accountkey"):
            return SharedKey(account, key)
        if token := given.get("sharedaccesssignature"):
            return SharedAccess(account, token)
    return Token(default_credential(), SystemClock())


def default_credential() -> TokenCredential:
    """Return the identity of this machine or user, as azure-identity finds it, without its log."""
    from azure.identity import DefaultAzureCredential

    # Without a handler, Python would print its warnings, a page for each identity that is missing.
    logging.getLogger("azure.identity").addHandler(logging.NullHandler())
    return DefaultAzureCredential()


def _connection(text: str) -> dict[str, str]:
    """Return the parts of a connection string, by their names in lower case."""
    pairs = (part.partition("=") for part in text.split(";"))
    return {name.strip().lower(): value.strip() for name, equals, value in pairs if equals}
