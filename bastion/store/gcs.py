"""
`GcsStore`: a bucket of Google Cloud Storage, over its JSON API.

It uses urllib3 and google-auth directly. The port needs only five requests; each is sent once and
has a deadline. A process that has made them takes 26 MB, or 43 with google-auth's credentials; the
client library takes 60 before its first request (measured, resident).

* A version is a generation, which grows with every write and never returns. The word stays here.
* A create is an insert with `ifGenerationMatch=0`, a swap one with the generation, a conditional
  read a download with `ifGenerationNotMatch`. Only 412 is a conflict.
* 429 is Google's answer to a second write of one object within a second. All contenders for one
  name may get it. It is a `StoreError` that says how long to wait.

Source: Cloud Storage JSON API v1 (`storage.v1.json`), "HTTP status and error codes for JSON".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from bastion.errors import (
    ConflictError,
    NotFoundError,
    OversizeError,
    StoreError,
    StoreRefusedError,
)
from bastion.store.exchange import ANSWER_BYTES, Answer, Exchange
from bastion.store.keys import checked, checked_prefix, is_key
from bastion.store.network_fault import fault_of
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, Version, Written, stands

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

ENDPOINT = "https://storage.googleapis.com"

_PAUSE_AFTER_429_S = 1.1
"""Google accepts one write per second per object. Source: Cloud Storage, "Quotas and limits"."""

LONGEST_PAUSE_S = 30.0
"""Longest pause that a server can ask for: the length of a lease on a cloud store."""

_OF_A_VM = "google.auth.compute_engine"
"""The module of credentials from a metadata server."""

_METADATA = "http://metadata.google.internal"
_TOKENS = "https://oauth2.googleapis.com"

_PAGE = 1000
"""Maximum entries in one answer to a list. Source: storage.v1.json, objects.list."""

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


class GcsStore:
    """
    The objects of `bucket` whose names start with `prefix/`.

    Args:
        bucket: Its name.
        prefix: Without `/` at its ends; empty for the whole bucket.
        credentials: The credentials of requests; None: anonymous requests, for emulators.
        endpoint: URL of the server.
        deadline_s: Longest time from a request to the end of its answer.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        credentials: Credentials | None,
        endpoint: str = ENDPOINT,
        deadline_s: float = 60.0,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._credentials = credentials
        self._endpoint = endpoint
        self._refreshing = threading.Lock()
        self._exchange = Exchange(f"gs://{bucket}", endpoint, deadline_s)

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        query = {"alt": "media"} | ({} if unless is None else {"ifGenerationNotMatch": unless})
        answer = self._ask("GET", self._path(key), query, limit_bytes=limit_bytes)
        match answer.status:
            case 200 if len(answer.body) > limit_bytes:
                raise OversizeError(key, limit_bytes=limit_bytes)
            case 200:
                with self._understood():
                    return Object(
                        data=answer.body,
                        version=Version(answer.headers["x-goog-generation"]),
                        modified_at=self._modified_at(key, answer.headers),
                    )
            case 304 if unless is not None:
                return None
            case 404 if _is_absence(answer):
                raise NotFoundError(f"no object at {key!r}")
            case _:
                raise self._failure(answer, key, "read")

    def create(self, key: str, data: bytes) -> Written:
        """
        See the port.

        Google does not document whether it checks the precondition first or the permission to
        replace an object. A refusal is therefore a conflict if there is an object.
        """
        conflict = f"there is an object at {key!r}"
        try:
            return self._insert(key, data, "0", conflict)
        except StoreRefusedError as refusal:
            if stands(self, key):
                raise ConflictError(conflict) from refusal
            raise

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        lost = f"the object at {key!r} is no longer at version {if_version}"
        return self._insert(key, data, if_version, lost)

    def delete(self, key: str) -> None:
        """See the port."""
        answer = self._ask("DELETE", self._path(key), {})
        match answer.status:
            case 200 | 204 if not answer.body:
                return
            case 404 if _is_absence(answer):
                return
            case _:
                raise self._failure(answer, key, "deleted")

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        query = {
            "prefix": self._prefix + checked_prefix(prefix),
            "startOffset": self._prefix + start_after,
            "fields": "nextPageToken,items(name,generation,size,timeCreated)",
        }
        found: list[Entry] = []
        while len(found) < limit:
            # One more than requested, since `startOffset` itself is listed too.
            query["maxResults"] = str(min(limit - len(found) + 1, _PAGE))
            answer = self._ask("GET", f"/storage/v1/b/{self._bucket}/o", query)
            if answer.status != 200:
                raise self._failure(answer, prefix, "listed")
            with self._understood():
                page = json.loads(answer.body)
                entries = [self._entry(item) for item in page.get("items", ())]
            found += [e for e in entries if e.key > start_after and is_key(e.key)]
            if "nextPageToken" not in page:
                break
            query["pageToken"] = page["nextPageToken"]
        return tuple(found[:limit])

    def date(self) -> float | None:
        """See `Dated`."""
        return self._exchange.date()

    def _insert(self, key: str, data: bytes, generation: str, lost: str) -> Written:
        query = {
            "uploadType": "media",
            "name": self._prefix + checked(key),
            "ifGenerationMatch": generation,
            "fields": "generation,timeCreated",
        }
        path = f"/upload/storage/v1/b/{self._bucket}/o"
        answer = self._ask("POST", path, query, data)
        if answer.status == 200:
            with self._understood():
                made = json.loads(answer.body)
                return Written(
                    version=Version(made["generation"]), modified_at=_seconds(made["timeCreated"])
                )
        if answer.status == 412:
            raise ConflictError(lost)
        raise self._failure(answer, key, "written")

    def _path(self, key: str) -> str:
        return f"/storage/v1/b/{self._bucket}/o/{quote(self._prefix + checked(key), safe='')}"

    def _entry(self, item: Mapping[str, str]) -> Entry:
        return Entry(
            key=item["name"][len(self._prefix) :],
            version=Version(item["generation"]),
            size=int(item.get("size", 0)),
            modified_at=_seconds(item["timeCreated"]),
        )

    def _modified_at(self, key: str, headers: Mapping[str, str]) -> float:
        """
        Return when the object that was read was written.

        `Last-Modified` has whole seconds. A generation is the same time in microseconds, which
        Google does not guarantee, so it is used only if the two agree. If an emulator omits the
        header, the metadata is requested.
        """
        generation = headers["x-goog-generation"]
        header = headers.get("last-modified")
        if header is None:
            query = {"fields": "timeCreated", "generation": generation}
            answer = self._ask("GET", self._path(key), query)
            if answer.status != 200:
                raise self._failure(answer, key, "read")
            return _seconds(json.loads(answer.body)["timeCreated"])
        modified_at = parsedate_to_datetime(header).timestamp()
        finer = int(generation) / 1e6
        return finer if 0 <= finer - modified_at < 1 else modified_at

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None = None,
        *,
        limit_bytes: int = ANSWER_BYTES,
    ) -> Answer:
        """
        Send one request once. Return any complete answer; StoreError if there is none.

        A body above `limit_bytes` is cut there, and its connection is closed.
        """
        url = f"{self._endpoint}{path}?{urlencode(query)}"
        # Objects are read as stored: one with a compressed content encoding is never
        # decompressed.
        headers = {"Accept-Encoding": "gzip"} if "alt" in query else {}
        headers |= {} if body is None else {"Content-Type": "application/octet-stream"}
        self._authorize(method, url, headers)
        answer = self._exchange.send(method, url, headers, body, limit_bytes=limit_bytes)
        if answer.status == 401 and self._credentials is not None:
            # Certainly not executed: Google may expire a token long before it expires here.
            self._refresh(headers)
            answer = self._exchange.send(method, url, headers, body, limit_bytes=limit_bytes)
        return answer

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Turn every answer that is not valid for this API into a `StoreError`."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"gs://{self._bucket}: {self._endpoint} sent no answer of Cloud Storage",
                hint="check that no proxy answers for it",
            ) from error

    def _authorize(self, method: str, url: str, headers: dict[str, str]) -> None:
        credentials = self._credentials
        if credentials is None:
            return
        with self._given_token() as transport:
            credentials.before_request(transport, method, url, headers)

    def _refresh(self, headers: dict[str, str]) -> None:
        """Put a new token into `headers` after one was refused."""
        assert self._credentials is not None
        refused = headers.get("authorization", "")
        with self._refreshing, self._given_token() as transport:
            if refused.endswith(str(self._credentials.token)):
                self._credentials.refresh(transport)
            self._credentials.apply(headers)

    @contextmanager
    def _given_token(self) -> Iterator[object]:
        """
        Provide the transport for token requests, and explain a failure to get one.

        On a VM google-auth raises the same error for a metadata server that is down or refuses.
        """
        import google.auth.exceptions
        import google.auth.transport.urllib3

        try:
            yield google.auth.transport.urllib3.Request(self._exchange.roads)
        except google.auth.exceptions.GoogleAuthError as error:
            is_outage = isinstance(error, google.auth.exceptions.TransportError) or error.retryable
            if is_outage or type(self._credentials).__module__.startswith(_OF_A_VM):
                fault = fault_of(error, self._token_server())
                raise StoreError(f"no token from Google: {fault.what}", hint=fault.hint) from error
            raise StoreRefusedError(
                f"Google gives {self._identity()} no token: {error}",
                hint="run: gcloud auth application-default login",
            ) from error

    def _token_server(self) -> str:
        """Return the URL of the server that gives tokens."""
        if type(self._credentials).__module__.startswith(_OF_A_VM):
            return _METADATA
        return str(getattr(self._credentials, "token_uri", "") or _TOKENS)

    def _identity(self) -> str:
        """Return the caller, as far as the credentials name it."""
        if self._credentials is None:
            return "an anonymous caller"
        email = getattr(self._credentials, "service_account_email", None)
        return str(email or getattr(self._credentials, "account", "") or "this user")

    def _failure(self, answer: Answer, key: str, done: str) -> StoreError:
        place = f"{key!r} in gs://{self._bucket}/{self._prefix}"
        said = f"{place} was not {done}: {answer.status} {_text(answer)}"
        match answer.status:
            case 404 if _is_bucket_missing(answer):
                return StoreRefusedError(
                    f"there is no bucket gs://{self._bucket}, or {self._identity()} may not see it",
                    hint=f"run: gcloud storage buckets create gs://{self._bucket} "
                    "--uniform-bucket-level-access",
                )
            case 401:
                return StoreRefusedError(
                    f"gs://{self._bucket} does not know {self._identity()}: {_text(answer)}",
                    hint="run: gcloud auth application-default login",
                )
            case 403 if not _is_pacing(answer):
                return StoreRefusedError(
                    f"gs://{self._bucket} refuses {self._identity()}: {key!r} was not {done}:"
                    f" {_text(answer)}",
                    hint="an admin grants the required roles: bastion setup gcs",
                )
            case 403 | 429:
                return StoreError(said, retry_after_s=max(_PAUSE_AFTER_429_S, _asked_s(answer)))
            case 400 | 405 | 411 | 413 | 414:
                return StoreRefusedError(said)
            case _:
                return StoreError(said, retry_after_s=_asked_s(answer))


def _text(answer: Answer) -> str:
    """Return the error message of the answer; Google sends JSON, except for downloads."""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(answer.body)["error"]["message"])
    return answer.body[:300].decode(errors="replace").strip()


def _is_absence(answer: Answer) -> bool:
    """Whether a 404 is about the object, and not about the bucket or from a proxy."""
    return _text(answer).startswith("No such object")


def _is_bucket_missing(answer: Answer) -> bool:
    """Whether a 404 is about the bucket, which only its text shows."""
    return _text(answer).startswith("The specified bucket")


def _is_pacing(answer: Answer) -> bool:
    """Whether a 403 is a rate limit; for a download, only its text shows that."""
    body = answer.body.lower()
    return any(each in body for each in (b"ratelimitexceeded", b"rate limit", b"quotaexceeded"))


def _asked_s(answer: Answer) -> float:
    asked = answer.headers.get("retry-after", "")
    return min(float(asked), LONGEST_PAUSE_S) if asked.isdecimal() else 0.0


def _seconds(time_created: str) -> float:
    return datetime.fromisoformat(time_created).timestamp()


def default_credentials() -> Credentials:
    """
    Return the credentials of this machine or user, found in the same way as by Google's own tools.

    Raises:
        StoreRefusedError: There are none.
    """
    import google.auth
    import google.auth.exceptions

    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except google.auth.exceptions.GoogleAuthError as error:
        raise StoreRefusedError(
            f"there are no Google credentials here: {str(error).splitlines()[0]}",
            hint="run: gcloud auth application-default login",
        ) from error
    return credentials
