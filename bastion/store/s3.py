"""
`S3Store`: a bucket of Amazon S3, or of a store that speaks its protocol.

* A version is an ETag, as the store wrote it. For most objects it is a hash of the bytes, so the
  same bytes have the same version again: what is swapped here carries a nonce (`bastion.records`).
* A create is a put with `If-None-Match: *`, a swap one with `If-Match`, a conditional read a get
  with `If-None-Match`. 412 is a conflict, and so is 404 for a swap: the object is gone. 409 means
  that another write is under way, and says nothing about the precondition.
* Each request is sent once. botocore signs it and finds the credentials; its retries are off.

Source: Amazon S3 User Guide, "Conditional requests"; API Reference, "Error responses".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from bastion.errors import (
    BastionError,
    ConflictError,
    NotFoundError,
    StoreError,
    StoreRefusedError,
)
from bastion.store.keys import checked, checked_prefix, is_key
from bastion.store.port import Entry, Object, Version, Written

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        ListObjectsV2RequestTypeDef,
        ObjectTypeDef,
        PutObjectOutputTypeDef,
    )

_T = TypeVar("_T")

_CONNECT_S = 5
_SILENCE_S = 20
"""Longest silence within an answer."""

_DEADLINE_S = 60.0
"""Longest time to receive one object."""

_CONNECTIONS = 32
"""Kept open: as many as the lanes of one bastion ask at once."""

_PAUSE_WHEN_SLOWED_S = 1.1
"""S3 names no time when it says SlowDown; as long as the slowest store of ours needs."""

_PAGE = 1000
"""Most keys that a list answers at once. Source: API Reference, ListObjectsV2."""

_SLOWED = frozenset({"SlowDown", "TooManyRequests", "RequestLimitExceeded", "Throttling"})


class S3Store:
    """
    The objects of `bucket` whose names begin with `prefix/`.

    Args:
        bucket: Its name.
        prefix: Without `/` at its ends; empty for the whole bucket.
        endpoint_url: Another server than Amazon's; addressed by path, not by host name.
        region_name: Where the bucket is, unless the environment says it.

    Raises:
        StoreRefusedError: The settings of AWS that lie here do not make sense.
    """

    def __init__(
        self, bucket: str, prefix: str = "", *, endpoint_url: str = "", region_name: str = ""
    ) -> None:
        import boto3
        from botocore.config import Config

        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._session = boto3.session.Session()
        region_name = region_name or self._session.region_name or "us-east-1"
        self._client: S3Client = self._ask(
            lambda: self._session.client(
                "s3",
                endpoint_url=endpoint_url or None,
                region_name=region_name,
                config=Config(
                    connect_timeout=_CONNECT_S,
                    read_timeout=_SILENCE_S,
                    retries={"total_max_attempts": 1, "mode": "standard"},
                    max_pool_connections=_CONNECTIONS,
                    s3={"addressing_style": "path" if endpoint_url else "auto"},
                    # Compatible stores do not know the checksums that botocore adds on its own.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            ),
            "opened",
        )

    def read(self, key: str, *, unless: Version | None = None) -> Object | None:
        """See the port."""
        name = self._name(key)

        def get() -> Object:
            if unless is None:
                found = self._client.get_object(Bucket=self._bucket, Key=name)
            else:
                found = self._client.get_object(Bucket=self._bucket, Key=name, IfNoneMatch=unless)
            return Object(
                data=_received(found["Body"]),
                version=Version(found["ETag"]),
                modified_at=found["LastModified"].timestamp(),
            )

        absent = NotFoundError(f"no object at {key!r}")
        try:
            return self._ask(get, f"read {key!r}", {304: _UnchangedError(""), 404: absent})
        except _UnchangedError:
            return None

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        name = self._name(key)
        put = self._ask(
            lambda: self._client.put_object(
                Bucket=self._bucket, Key=name, Body=data, IfNoneMatch="*"
            ),
            f"create {key!r}",
            {412: ConflictError(f"there is an object at {key!r}")},
        )
        return _written(put)

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        name = self._name(key)
        lost = ConflictError(f"the object at {key!r} is no longer at version {if_version}")
        put = self._ask(
            lambda: self._client.put_object(
                Bucket=self._bucket, Key=name, Body=data, IfMatch=if_version
            ),
            f"swap {key!r}",
            {412: lost, 404: lost},
        )
        return _written(put)

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
            page = self._ask(lambda: self._client.list_objects_v2(**query), f"list {prefix!r}")
            entries = (self._entry(item) for item in page.get("Contents", ()))
            found += [entry for entry in entries if is_key(entry.key)]
            if not page.get("IsTruncated"):
                break
            query["ContinuationToken"] = page["NextContinuationToken"]
        return tuple(found)

    def _name(self, key: str) -> str:
        return self._prefix + checked(key)

    def _entry(self, item: ObjectTypeDef) -> Entry:
        return Entry(
            key=item["Key"][len(self._prefix) :],
            version=Version(item["ETag"]),
            size=item["Size"],
            modified_at=item["LastModified"].timestamp(),
        )

    def _ask(
        self,
        request: Callable[[], _T],
        doing: str,
        answers: Mapping[int, BastionError] = MappingProxyType({}),
    ) -> _T:
        """Send one request once; `answers` are what some statuses mean, the rest are failures."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
        from urllib3.exceptions import HTTPError

        try:
            return request()
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status in answers and _code(error) != "NoSuchBucket":
                raise answers[status] from error
            raise self._failure(error, status, doing) from error
        except (HTTPClientError, HTTPError, OSError) as error:
            raise StoreError(f"s3://{self._bucket} did not answer to {doing}: {error}") from error
        except BotoCoreError as error:
            raise StoreRefusedError(
                f"s3://{self._bucket} cannot be asked to {doing}: {error}",
                hint="run: aws sts get-caller-identity, or aws configure",
            ) from error

    def _failure(self, error: ClientError, status: int, doing: str) -> StoreError:
        code, text = _code(error), error.response["Error"].get("Message", "")
        said = f"s3://{self._bucket}/{self._prefix} did not {doing}: {status} {code} {text}"
        if code == "NoSuchBucket":
            return StoreRefusedError(
                f"there is no bucket s3://{self._bucket}",
                hint=f"run: aws s3 mb s3://{self._bucket}",
            )
        if code in _SLOWED or status == 429:
            return StoreError(said, retry_after_s=_PAUSE_WHEN_SLOWED_S)
        if status in (401, 403):
            return StoreRefusedError(
                f"s3://{self._bucket} refuses {self._identity()} to {doing}: {code} {text}",
                hint="run: aws sts get-caller-identity, and grant that identity s3:GetObject, "
                "s3:PutObject, s3:DeleteObject and s3:ListBucket",
            )
        if status in (301, 400, 405):
            return StoreRefusedError(said)
        return StoreError(said)

    def _identity(self) -> str:
        """Who is asking, as far as can be told without asking."""
        credentials = self._session.get_credentials()
        return f"access key {credentials.access_key}" if credentials else "an anonymous caller"


class _UnchangedError(BastionError):
    """304: what is there is what the caller has."""


def _code(error: ClientError) -> str:
    return error.response["Error"].get("Code", "")


def _received(body: StreamingBody) -> bytes:
    """The whole body; a server that sends it drop by drop does not hold us for ever."""
    deadline = time.monotonic() + _DEADLINE_S
    chunks = []
    for chunk in body.iter_chunks(1 << 20):
        chunks.append(chunk)
        if time.monotonic() > deadline:
            body.close()
            raise TimeoutError(f"still sending after {_DEADLINE_S:g} s")
    return b"".join(chunks)


def _written(put: PutObjectOutputTypeDef) -> Written:
    """A put tells no time of its object; the date of its answer is of the same clock."""
    date = put["ResponseMetadata"]["HTTPHeaders"]["date"]
    return Written(
        version=Version(put["ETag"]), modified_at=parsedate_to_datetime(date).timestamp()
    )
