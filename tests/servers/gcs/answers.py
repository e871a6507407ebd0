"""Responses: answers and errors with the bodies that Google sends, resources as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from tests.servers.gcs.storage import Blob, Bucket, crc32c

JSON = "application/json; charset=UTF-8"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One HTTP response."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, resource: object, *, status: int = 200, headers: Mapping[str, str] = {}) -> Answer:
        """A JSON resource."""
        body = json.dumps(resource, indent=2).encode()
        return cls(status=status, body=body, headers={"Content-Type": JSON, **headers})


class ApiError(Exception):
    """
    An error response, with the reason codes of the JSON API.

    Source: Cloud Storage, "HTTP status and error codes for JSON".
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        domain: str = "global",
        location: str = "",
        location_type: str = "",
        headers: Mapping[str, str] = {},
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.message = message
        self.detail = {"message": message, "domain": domain, "reason": reason}
        if location:
            self.detail |= {"locationType": location_type, "location": location}

    def answer(self, *, media: bool) -> Answer:
        """Return the response; for a download it is plain text, and 304 has no body."""
        if self.status == 304:
            return Answer(status=304, headers=self.headers)
        if media:
            kind = {"Content-Type": "text/html; charset=UTF-8"}
            return Answer(
                status=self.status, body=self.message.encode(), headers={**kind, **self.headers}
            )
        error = {"code": self.status, "message": self.message, "errors": [self.detail]}
        return Answer.of({"error": error}, status=self.status, headers=self.headers)


def no_such_bucket() -> ApiError:
    """404 for anything in a bucket that does not exist."""
    return ApiError(404, "notFound", "The specified bucket does not exist.")


def no_such_object(bucket: str, name: str) -> ApiError:
    """404 for an object that does not exist."""
    return ApiError(404, "notFound", f"No such object: {bucket}/{name}")


def condition_not_met() -> ApiError:
    """412 for a match that failed."""
    return ApiError(
        412,
        "conditionNotMet",
        "At least one of the pre-conditions you specified did not hold.",
        location="If-Match",
        location_type="header",
    )


def not_modified() -> ApiError:
    """304 for a not-match that failed."""
    return ApiError(304, "notModified", "Not Modified")


def invalid(message: str, *, reason: str = "invalid", location: str = "") -> ApiError:
    """400."""
    kind = "parameter" if location else ""
    return ApiError(400, reason, message, location=location, location_type=kind)


def too_many_mutations(bucket: str, name: str) -> ApiError:
    """429 for a second write of one object within a second."""
    return ApiError(
        429,
        "rateLimitExceeded",
        f"The object {bucket}/{name} exceeded the rate limit for object mutation operations "
        "(create, update, and delete). Please reduce your request rate. See "
        "https://cloud.google.com/storage/docs/gcs429.",
        domain="usageLimits",
    )


def unauthorized(reason: str, message: str) -> ApiError:
    """401."""
    return ApiError(
        401,
        reason,
        message,
        location="Authorization",
        location_type="header",
        headers={"WWW-Authenticate": 'Bearer realm="https://accounts.google.com/"'},
    )


def backend_error() -> ApiError:
    """503."""
    return ApiError(503, "backendError", "We encountered an internal error. Please try again.")


def rfc3339(time_us: int) -> str:
    """A time as resources show it, to the millisecond."""
    at = datetime.fromtimestamp(time_us / 1e6, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_us // 1000 % 1000:03}Z"


def object_resource(blob: Blob, host: str) -> dict[str, Any]:
    """`storage#object`."""
    path = f"/b/{blob.bucket}/o/{quote(blob.name, safe='')}"
    resource: dict[str, Any] = {
        "kind": "storage#object",
        "id": f"{blob.bucket}/{blob.name}/{blob.generation}",
        "selfLink": f"{host}/storage/v1{path}",
        "mediaLink": f"{host}/download/storage/v1{path}?generation={blob.generation}&alt=media",
        "name": blob.name,
        "bucket": blob.bucket,
        "generation": str(blob.generation),
        "metageneration": str(blob.metageneration),
        "storageClass": "STANDARD",
        "size": str(len(blob.data)),
        "crc32c": crc32c(blob.data),
        "etag": blob.etag,
        "timeCreated": rfc3339(blob.created_us),
        "updated": rfc3339(blob.updated_us),
        "timeStorageClassUpdated": rfc3339(blob.created_us),
        "timeFinalized": rfc3339(blob.created_us),
        **blob.fields,
    }
    if blob.components:
        resource["componentCount"] = blob.components
    else:
        resource["md5Hash"] = blob.md5
    return resource


def bucket_resource(bucket: Bucket, host: str) -> dict[str, Any]:
    """`storage#bucket`."""
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "selfLink": f"{host}/storage/v1/b/{bucket.name}",
        "name": bucket.name,
        "projectNumber": "0",
        "metageneration": "1",
        "location": "US",
        "locationType": "multi-region",
        "storageClass": "STANDARD",
        "etag": base64.b64encode(b"\x08\x01").decode(),
        "timeCreated": rfc3339(bucket.created_us),
        "updated": rfc3339(bucket.created_us),
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
    }
