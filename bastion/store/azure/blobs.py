"""
`AzureStore`: a container of Azure Blob Storage, over its REST API.

It uses urllib3 and azure-identity directly. The port needs only five requests; each is sent once
and has a deadline.

* A version is an ETag, which changes with every write.
* A create is a Put Blob with `If-None-Match: *`, a swap one with `If-Match`, a conditional read a
  Get Blob with `If-None-Match`. A create of a name that is taken gets 409 BlobAlreadyExists. Any
  other condition that fails gets 412 ConditionNotMet, and a swap of a deleted object may get 404.
* `names` are the names of blobs for keys.
* A list starts at `startFrom`, which older servers ignore. What they list before is left out here.

Source: Blob service REST API, version 2026-02-06; "Naming and referencing containers and blobs".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import quote, urlencode

from bastion.errors import (
    ConflictError,
    NotFoundError,
    OversizeError,
    StoreError,
    StoreRefusedError,
)
from bastion.store.azure.answers import (
    ABSENT,
    Blob,
    code_of,
    detail_of,
    page_of,
    seconds_of,
    text_of,
    version_of,
)
from bastion.store.azure.caller import Caller
from bastion.store.azure.names import key_of, misfit, name_of
from bastion.store.azure.signed import send_signed
from bastion.store.exchange import ANSWER_BYTES, Answer, Exchange
from bastion.store.keys import checked, checked_prefix, is_key
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, Version, Written, stands

_API = "2026-02-06"
"""The first version whose lists take `startFrom`."""

_PAGE = 5000
"""Maximum blobs in one answer to a list. Source: REST API, "List Blobs"."""

_PAUSE_WHEN_BUSY_S = 1.0
"""ServerBusy names no time. Source: "Performance and scalability checklist for Blob storage"."""

_LOST = frozenset({"ConditionNotMet", "TargetConditionNotMet"})
_TAKEN = "BlobAlreadyExists"
_NEVER = frozenset(
    {"BlobImmutableDueToPolicy", "LeaseIdMissing", "LeaseIdMismatchWithBlobOperation"}
)
_UNKNOWN = frozenset({"AuthenticationFailed", "InvalidAuthenticationInfo"})
_BUSY = frozenset({"ServerBusy", "TooManyRequests"})


class AzureStore:
    """
    The blobs of `container` whose names start with `prefix/`.

    Args:
        account: The name of the storage account.
        container: The name of the container.
        prefix: Without `/` at its ends; empty for the whole container.
        caller: Signs the requests.
        endpoint_url: The account's blob endpoint, if it is not the one of Azure's public cloud.
        deadline_s: Longest time from a request to the end of its answer.
    """

    def __init__(
        self,
        account: str,
        container: str,
        prefix: str = "",
        *,
        caller: Caller,
        endpoint_url: str = "",
        deadline_s: float = 60.0,
    ) -> None:
        self._place = f"az://{account}/{container}"
        self._make = (
            f"az storage container create --account-name={account} --name={container}"
            " --auth-mode=login"
        )
        self._endpoint = endpoint_url.rstrip("/") or f"https://{account}.blob.core.windows.net"
        self._url = f"{self._endpoint}/{container}"
        self._prefix = f"{prefix}/" if prefix else ""
        self._caller = caller
        self._exchange = Exchange(self._place, self._endpoint, deadline_s)

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        headers = {} if unless is None else {"If-None-Match": unless}
        answer = self._ask("GET", self._blob(key), headers, limit_bytes=limit_bytes)
        match answer.status:
            case 200 if len(answer.body) > limit_bytes:
                raise OversizeError(key, limit_bytes=limit_bytes)
            case 200:
                with self._understood():
                    return Object(
                        data=answer.body,
                        version=version_of(answer.headers["etag"]),
                        modified_at=seconds_of(answer.headers["last-modified"]),
                    )
            case 304 if unless is not None:
                return None
            case 404 if code_of(answer) == ABSENT:
                raise NotFoundError(f"no object at {key!r}")
            case _:
                raise self._failure(answer, key, "read")

    def create(self, key: str, data: bytes) -> Written:
        """See the port; a refusal is a conflict if there is an object."""
        conflict = f"there is an object at {key!r}"
        try:
            return self._put(key, data, {"If-None-Match": "*"}, conflict)
        except StoreRefusedError as refusal:
            if stands(self, key):
                raise ConflictError(conflict) from refusal
            raise

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        lost = f"the object at {key!r} is no longer at version {if_version}"
        return self._put(key, data, {"If-Match": if_version}, lost)

    def delete(self, key: str) -> None:
        """See the port; snapshots that others took of the blob are deleted with it."""
        answer = self._ask("DELETE", self._blob(key), {"x-ms-delete-snapshots": "include"})
        if answer.status == 202 or (answer.status == 404 and code_of(answer) == ABSENT):
            return
        raise self._failure(answer, key, "deleted")

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        query = {
            "restype": "container",
            "comp": "list",
            "prefix": name_of(self._prefix + checked_prefix(prefix)),
        }
        if start_after:
            query["startFrom"] = name_of(self._prefix + start_after)
        found: list[Entry] = []
        while len(found) < limit:
            # One more than requested, since `startFrom` itself is listed too.
            query["maxresults"] = str(min(limit - len(found) + 1, _PAGE))
            answer = self._ask("GET", f"{self._url}?{urlencode(query)}", {})
            if answer.status != 200:
                raise self._failure(answer, prefix, "listed")
            with self._understood():
                page = page_of(answer)
            entries = (self._entry(blob) for blob in page.blobs)
            found += [e for e in entries if e is not None and e.key > start_after]
            if not page.marker:
                break
            query["marker"] = page.marker
        return tuple(found[:limit])

    def date(self) -> float | None:
        """See `Dated`."""
        return self._exchange.date()

    def _put(self, key: str, data: bytes, condition: Mapping[str, str], lost: str) -> Written:
        headers = {
            **condition,
            "x-ms-blob-type": "BlockBlob",
            "Content-Type": "application/octet-stream",
            "Content-Length": str(len(data)),
        }
        answer = self._ask("PUT", self._blob(key), headers, data)
        if answer.status == 201:
            with self._understood():
                return Written(
                    version=version_of(answer.headers["etag"]),
                    modified_at=seconds_of(answer.headers["last-modified"]),
                )
        code = code_of(answer)
        is_taken = answer.status == 409 and code == _TAKEN
        is_gone = answer.status == 404 and code == ABSENT and "If-Match" in condition
        if is_taken or is_gone or (answer.status == 412 and code in _LOST):
            raise ConflictError(lost)
        raise self._failure(answer, key, "written")

    def _entry(self, blob: Blob) -> Entry | None:
        """Return a listed object; None for a blob whose name is not that of a key."""
        key = (key_of(blob.name) or "")[len(self._prefix) :]
        if not is_key(key) or misfit(key, self._prefix):
            return None
        return Entry(key=key, version=blob.version, size=blob.size, modified_at=blob.modified_at)

    def _blob(self, key: str) -> str:
        name = name_of(self._prefix + checked(key))
        if why := misfit(key, self._prefix):
            raise StoreRefusedError(
                f"{self._place} cannot hold {key!r}: the name {why}", hint="choose another name"
            )
        return f"{self._url}/{quote(name, safe='/~')}"

    def _ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        limit_bytes: int = ANSWER_BYTES,
    ) -> Answer:
        """Send one request once. Return any complete answer; StoreError if there is none."""
        asked = {**headers, "x-ms-version": _API}
        return send_signed(
            self._exchange, self._caller, method, url, asked, body, limit_bytes=limit_bytes
        )

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Turn every answer that is not valid for this API into a `StoreError`."""
        try:
            yield
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self._place}: {self._endpoint} sent no answer of Azure Blob Storage",
                hint="check that no proxy answers for it",
            ) from error

    def _failure(self, answer: Answer, key: str, done: str) -> StoreError:
        code, who = code_of(answer), self._caller.name
        words = " ".join(filter(None, (str(answer.status), code, text_of(answer))))
        said = f"{key!r} in {self._place}/{self._prefix} was not {done}: {words}"
        if answer.status == 404 and code == "ContainerNotFound":
            return StoreRefusedError(
                f"there is no container {self._place}", hint=f"run: {self._make}"
            )
        if code == "AuthenticationFailed" and "date" in detail_of(answer).lower():
            return StoreError(said, hint="set this machine's clock: it is minutes off")
        if answer.status == 401 or code in _UNKNOWN:
            return StoreRefusedError(
                f"{self._place} does not know {who}: {words}",
                hint="run: az login; or check the AZURE_STORAGE_ variables",
            )
        if answer.status == 403:
            return StoreRefusedError(
                f"{self._place} refuses {who}: {key!r} was not {done}: {words}",
                hint="an admin grants the required roles: bastion setup azure",
            )
        if answer.status in (400, 405, 411, 413, 414) or code in _NEVER:
            return StoreRefusedError(said)
        is_busy = code in _BUSY or answer.status in (429, 503)
        return StoreError(said, retry_after_s=_PAUSE_WHEN_BUSY_S if is_busy else 0.0)
