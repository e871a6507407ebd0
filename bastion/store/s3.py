"""
`S3Store`: a bucket of Amazon S3, or of a store with the same protocol.

* A version is an ETag, as returned by the store. For most objects it is a hash of the bytes, so
  equal bytes have equal versions: objects that are swapped carry a nonce (`bastion.records`).
* A create is a put with `If-None-Match: *`, a swap one with `If-Match`, a conditional read a get
  with `If-None-Match`. 412 is a conflict, and so is 404 for a swap: the object is gone. 409 means
  that another write is in progress, and says nothing about the precondition.
* Some servers, such as Ceph's gateway, compare ETags without the quotes that they return. They are
  sent bare ETags if the root's URL asks for that. The probe shows which servers need it.
* Each request is sent once. botocore signs it and finds the credentials; its retries are off.

Source: Amazon S3 User Guide, "Conditional requests"; API Reference, "Error responses".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from bastion.clock import SystemClock
from bastion.errors import (
    BastionError,
    ConflictError,
    NotFoundError,
    OversizeError,
    StoreError,
    StoreRefusedError,
)
from bastion.store.date import AnswerDate
from bastion.store.keys import checked, checked_prefix, is_key
from bastion.store.network_fault import fault_of
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, Version, Written, stands

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse
    from botocore.exceptions import ClientError
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        ListObjectsV2RequestTypeDef,
        ObjectTypeDef,
        PutObjectOutputTypeDef,
    )

_CLOCK = SystemClock()
"""The clock for deadlines of real connections; no simulation has one."""
_T = TypeVar("_T")

_CONNECT_S = 5.0
_SILENCE_S = 20.0
"""Longest silence within an answer: far above what S3 needs for one, and below any lease."""

_CHUNK_BYTES = 1 << 16
"""Bytes received between two checks of the deadline."""

_CONNECTIONS = 32
"""Connections kept open: as many as the lanes of one bastion use together."""

_PAUSE_WHEN_SLOWED_S = 1.1
"""S3's SlowDown names no time; this is the pause of the slowest store."""

_PAGE = 1000
"""Maximum keys in one answer to a list. Source: API Reference, ListObjectsV2."""

_SLOWED = frozenset(
    {
        "SlowDown",
        "TooManyRequests",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
    }
)
_REDIRECTS = frozenset({301, 302, 307, 308})
_FOR_GOOD = frozenset({301, 308})
_TRANSIENT = frozenset(
    {
        "RequestTimeout",
        "RequestTimeoutException",
        "IncompleteBody",
        "BadDigest",
        "PriorRequestNotComplete",
        "ExpiredToken",
        "TransactionInProgressException",
        "BandwidthLimitExceeded",
        "LimitExceededException",
    }
)
"""
Codes of 4xx answers after which the same request may succeed, for example with a renewed token.

Source: botocore, `retries/standard.py`, and S3 API Reference, "Error responses".
"""


class S3Store:
    """
    The objects of `bucket` whose names start with `prefix/`.

    Args:
        bucket: Its name.
        prefix: Without `/` at its ends; empty for the whole bucket.
        endpoint_url: A server other than Amazon's; addressed by path, not by host name.
        region_name: The bucket's region, unless the environment sets it.
        has_bare_etags: Whether the server expects ETags without quotes in `If-Match`.
        deadline_s: Longest time to receive one object.

    Raises:
        StoreRefusedError: The AWS settings on this machine are invalid.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint_url: str = "",
        region_name: str = "",
        has_bare_etags: bool = False,
        deadline_s: float = 60.0,
    ) -> None:
        self._has_bare_etags = has_bare_etags
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._deadline_s = deadline_s
        self._date = AnswerDate()
        self._endpoint = ""
        self._client = self._ask(
            lambda: _client(endpoint_url, region_name, deadline_s), "make a client"
        )
        self._endpoint = self._client.meta.endpoint_url
        self._client.meta.events.register("after-call.s3", self._hear)
        self._client.meta.events.register_first("needs-retry.s3", self._check_redirect)

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """See the port."""
        name = self._name(key)

        def get() -> Object:
            if unless is None:
                found = self._client.get_object(Bucket=self._bucket, Key=name)
            else:
                found = self._client.get_object(Bucket=self._bucket, Key=name, IfNoneMatch=unless)
            _check_end(found["ResponseMetadata"]["HTTPHeaders"])
            return Object(
                data=_received(
                    found["Body"], key, _CLOCK.monotonic() + self._deadline_s, limit_bytes
                ),
                version=_version(found["ETag"]),
                modified_at=found["LastModified"].timestamp(),
            )

        answers: dict[int, BastionError] = {404: NotFoundError(f"no object at {key!r}")}
        if unless is not None:
            answers[304] = _UnchangedError("")
        try:
            return self._ask(get, f"read {key!r}", answers)
        except _UnchangedError:
            return None

    def create(self, key: str, data: bytes) -> Written:
        """See the port; a refusal is a conflict if there is an object."""
        name = self._name(key)
        conflict = ConflictError(f"there is an object at {key!r}")
        try:
            return self._ask(
                lambda: _written(
                    self._client.put_object(
                        Bucket=self._bucket, Key=name, Body=data, IfNoneMatch="*"
                    )
                ),
                f"create {key!r}",
                {412: conflict},
            )
        except StoreRefusedError as refusal:
            if stands(self, key):
                raise conflict from refusal
            raise

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        name = self._name(key)
        tag = if_version.strip('"') if self._has_bare_etags else if_version
        lost = ConflictError(f"the object at {key!r} is no longer at version {if_version}")
        return self._ask(
            lambda: _written(
                self._client.put_object(Bucket=self._bucket, Key=name, Body=data, IfMatch=tag)
            ),
            f"swap {key!r}",
            {412: lost, 404: lost},
        )

    def delete(self, key: str) -> None:
        """See the port."""
        name = self._name(key)
        self._ask(
            lambda: self._client.delete_object(Bucket=self._bucket, Key=name), f"delete {key!r}"
        )

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        query: ListObjectsV2RequestTypeDef = {
            "Bucket": self._bucket,
            "Prefix": self._prefix + checked_prefix(prefix),
            "StartAfter": self._prefix + start_after,
        }
        found: list[Entry] = []
        while len(found) < limit:
            query["MaxKeys"] = min(limit - len(found), _PAGE)
            entries, token = self._ask(lambda: self._page(query), f"list {prefix!r}")
            found += [entry for entry in entries if is_key(entry.key)]
            if not token:
                break
            query["ContinuationToken"] = token
        return tuple(found)

    def date(self) -> float | None:
        """See `Dated`."""
        return self._date.now()

    def _hear(self, http_response: AWSResponse, **_: object) -> None:
        """Take the date of any answer, including errors."""
        self._date.hear(http_response.headers.get("date"))

    def _check_redirect(
        self, response: tuple[AWSResponse, Mapping[str, Mapping[str, str]]] | None, **_: object
    ) -> None:
        """
        Check that a redirect comes from S3; for any other, botocore would ask for a region
        endlessly.

        Raises:
            StoreRefusedError: It does not, and is permanent.
            StoreError: It does not.
        """
        if response is None or response[0].status_code not in _REDIRECTS:
            return
        status, headers = response[0].status_code, response[0].headers
        code = response[1].get("Error", {}).get("Code", "")
        if "x-amz-bucket-region" in headers or code.endswith("Redirect"):
            return
        kind = StoreRefusedError if status in _FOR_GOOD else StoreError
        raise kind(
            f"s3://{self._bucket} is answered by no S3 server: {status}, a redirect to"
            f" {headers.get('location', 'nowhere')}",
            hint="endpoint_url, in the address of the root, is that of the S3 server itself",
        )

    def _name(self, key: str) -> str:
        return self._prefix + checked(key)

    def _page(self, query: ListObjectsV2RequestTypeDef) -> tuple[tuple[Entry, ...], str]:
        """Return one list answer's entries, and the next page's token; empty if none."""
        page = self._client.list_objects_v2(**query)
        _check_end(page["ResponseMetadata"]["HTTPHeaders"])
        entries = tuple(self._entry(item) for item in page.get("Contents", ()))
        # An answer that is not a list has no entries either, so it must say that it is complete.
        return entries, page["NextContinuationToken"] if page["IsTruncated"] else ""

    def _entry(self, item: ObjectTypeDef) -> Entry:
        return Entry(
            key=item["Key"][len(self._prefix) :],
            version=_version(item["ETag"]),
            size=item["Size"],
            modified_at=item["LastModified"].timestamp(),
        )

    def _ask(
        self,
        request: Callable[[], _T],
        doing: str,
        answers: Mapping[int, BastionError] = MappingProxyType({}),
    ) -> _T:
        """Send one request once; `answers` maps expected statuses to errors."""
        from botocore import exceptions
        from botocore.parsers import ResponseParserError
        from urllib3.exceptions import HTTPError

        refusals = (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.ProfileNotFound,
            exceptions.ParamValidationError,
            exceptions.ConfigParseError,
            exceptions.SSOError,
            exceptions.TokenRetrievalError,
        )
        try:
            return request()
        except exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            # A 404 must name the key: one about the bucket, or from a proxy, does not mean
            # absence.
            if status in answers and (status != 404 or _code(error) == "NoSuchKey"):
                raise answers[status] from error
            raise self._failure(error, status, doing) from error
        except refusals as error:
            raise StoreRefusedError(
                f"s3://{self._bucket} cannot be asked to {doing}: {error}",
                hint="run: aws sts get-caller-identity, or aws configure",
            ) from error
        except (exceptions.InvalidRegionError, exceptions.UnknownEndpointError) as error:
            raise StoreRefusedError(
                f"s3://{self._bucket} cannot be asked to {doing}: {error}",
                hint="check region_name in the address, AWS_REGION and ~/.aws/config",
            ) from error
        except (ResponseParserError, KeyError, ValueError) as error:
            if not self._endpoint:
                raise StoreRefusedError(f"s3://{self._bucket}: {error}") from error
            raise StoreError(
                f"s3://{self._bucket}: cannot {doing}: {self._endpoint} sent no answer of S3",
                hint="check that this is the address of an S3 server, and no proxy answers for it",
            ) from error
        except (exceptions.BotoCoreError, HTTPError, OSError) as error:
            fault = fault_of(error, self._endpoint, authorities="AWS_CA_BUNDLE")
            raise StoreError(
                f"s3://{self._bucket}: cannot {doing}: {fault.what}", hint=fault.hint
            ) from error

    def _failure(self, error: ClientError, status: int, doing: str) -> StoreError:
        code, text = _code(error), error.response["Error"].get("Message", "")
        named = code if code != str(status) else ""  # the answer has no code of S3
        words = " ".join(filter(None, (str(status), named, text)))
        said = f"s3://{self._bucket}/{self._prefix} did not {doing}: {words}"
        if code == "NoSuchBucket":
            return StoreRefusedError(
                f"there is no bucket s3://{self._bucket}",
                hint=f"run: aws s3 mb s3://{self._bucket}",
            )
        if code in _SLOWED or status == 429:
            return StoreError(said, retry_after_s=_PAUSE_WHEN_SLOWED_S)
        if code in _TRANSIENT:
            return StoreError(said)
        if code == "RequestTimeTooSkewed":
            return StoreError(said, hint="set this machine's clock: it is minutes off")
        if status in (401, 403):
            return StoreRefusedError(
                f"s3://{self._bucket} refuses {_identity()} to {doing}: {code} {text}",
                hint="run: aws sts get-caller-identity; an admin grants the required roles:"
                " bastion setup s3",
            )
        if status in (301, 400, 405):
            return StoreRefusedError(said)
        return StoreError(said)


class _UnchangedError(BastionError):
    """304: the object is at the version that the caller has."""


def _client(endpoint_url: str, region_name: str, deadline_s: float) -> S3Client:
    import boto3
    from botocore.config import Config

    session = boto3.session.Session()
    return session.client(
        "s3",
        endpoint_url=endpoint_url or None,
        region_name=region_name or session.region_name or "us-east-1",
        config=Config(
            connect_timeout=min(_CONNECT_S, deadline_s),
            read_timeout=min(_SILENCE_S, deadline_s),
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=_CONNECTIONS,
            s3={"addressing_style": "path" if endpoint_url else "auto"},
            # Compatible stores do not know the checksums that botocore adds on its own.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def _identity() -> str:
    """
    Return the caller, as far as it is known without a request.

    All users can read the problems of a bastion in its views, so only the end of the key is shown.
    """
    import boto3

    credentials = boto3.session.Session().get_credentials()
    if not credentials:
        return "an anonymous caller"
    return f"the access key that ends in {credentials.access_key[-4:]}"


def _version(etag: str) -> Version:
    """
    Return an ETag as a version.

    The answer to a put has only headers, and if the connection breaks within them they look
    complete. Only the closing quote shows that the tag is complete.
    """
    if len(etag) < 3 or etag[0] != '"' or etag[-1] != '"':
        raise ValueError(f"ETag {etag!r} is not whole")
    return Version(etag)


def _check_end(headers: Mapping[str, str]) -> None:
    """
    Check that an answer marks its end.

    If a connection breaks within the headers, they look complete and the body looks empty.

    Raises:
        ValueError: It has neither a length nor a chunked encoding.
    """
    if "content-length" not in headers and "transfer-encoding" not in headers:
        raise ValueError("an incomplete answer")


def _code(error: ClientError) -> str:
    return error.response["Error"].get("Code", "")


def _received(body: StreamingBody, key: str, deadline: float, limit_bytes: int) -> bytes:
    """Return the whole body; a slow one is cut off at the deadline."""
    chunks = []
    left = limit_bytes
    for chunk in body.iter_chunks(_CHUNK_BYTES):
        chunks.append(chunk)
        left -= len(chunk)
        if left < 0:
            body.close()
            raise OversizeError(key, limit_bytes=limit_bytes)
        if _CLOCK.monotonic() > deadline:
            body.close()
            raise TimeoutError("still sending when the time was up")
    return b"".join(chunks)


def _written(put: PutObjectOutputTypeDef) -> Written:
    """Return the result of a put. The answer has no time for the object, so uses its date."""
    date = put["ResponseMetadata"]["HTTPHeaders"]["date"]
    return Written(
        version=_version(put["ETag"]), modified_at=parsedate_to_datetime(date).timestamp()
    )
