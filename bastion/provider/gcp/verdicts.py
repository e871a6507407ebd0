"""
What Google's errors mean for a pool: sold out, a limit, a refusal, or an unknown outcome.

Google reports a lack of capacity in several ways: as an error of an operation, as an HTTP status
with that text, and for TPUs only in words. The message keeps Google's own words.

Source: compute.v1.json `Operation.error`; google.rpc.Code; cloud.google.com/compute/docs/
troubleshooting/troubleshooting-vm-creation and .../troubleshooting-resource-availability; "There is
no more capacity in the zone" and "Insufficient reserved capacity" as Cloud TPU answers them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bastion.errors import (
    NoCapacityError,
    ProviderError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.value import value

_SOLD_OUT = re.compile(
    r"RESOURCE_?POOL_?EXHAUSTED|IP_SPACE_EXHAUSTED|insufficientCapacity"
    r"|does not have enough resources|no more capacity|insufficient (reserved )?capacity"
    r"|do not have available resources|preempted",
    re.IGNORECASE,
)
_PACING = re.compile(
    r"RATE_LIMIT_EXCEEDED|rateLimitExceeded|userRateLimitExceeded|OPERATION_RATE_EXCEEDED"
    r"|per minute|CONCURRENT_OPERATIONS",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"QUOTA_EXCEEDED|quotaExceeded|QuotaFailure|quota .*(exceeded|exhausted)|TOO_MANY",
    re.IGNORECASE,
)
_BUSY = re.compile(
    r"resourceNotReady|RESOURCE_NOT_READY|resourceInUse|INTERNAL_ERROR"
    r"|FAILED_PRECONDITION.*\bstate\b"
)
"""Temporary conditions: it is just being created, changed or deleted."""
_SUMMARY = "VM_MIN_COUNT_NOT_REACHED"
"""Not all of a batch could be created; the reasons are listed beside it, or in other operations."""

LEAST_PAUSE_S = 20.0
"""After too many calls: request quotas are counted per minute."""
LONGEST_PAUSE_S = 300.0

_RPC_STATUS = {3: 400, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401}
"""Code of google.rpc -> HTTP status. Source: google/rpc/code.proto."""


@value
class Failure:
    """One error of Google's, from a call or an operation."""

    status: int
    """HTTP status; 0 if an operation gives none."""
    codes: tuple[str, ...] = ()
    message: str = ""
    retry_after_s: float = 0.0

    @property
    def text(self) -> str:
        """Codes and message in one line of limited length."""
        told = ", ".join(dict.fromkeys(code for code in self.codes if code))
        return " ".join(f"{told}: {self.message}".split())[:500].removeprefix(": ")

    @property
    def is_missing(self) -> bool:
        """Whether the requested object does not exist."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Whether the object to create already exists."""
        return self.status == 409 or "RESOURCE_ALREADY_EXISTS" in self.codes

    @property
    def is_summary(self) -> bool:
        """Whether it only says that a batch is incomplete."""
        return bool(self.codes) and set(self.codes) <= {_SUMMARY}


def of_rpc(code: int, message: str) -> Failure:
    """Return the failure that an operation or state of Cloud TPU reports."""
    return Failure(status=_RPC_STATUS.get(code, 0), message=message)


def of_operation(operation: Mapping[str, Any]) -> Failure | None:
    """Return why a finished operation of Compute Engine failed; None if it did not."""
    errors = operation.get("error", {}).get("errors", [])
    if not errors:
        return None
    return Failure(
        status=int(operation.get("httpErrorStatusCode", 0)),
        codes=tuple(str(each.get("code", "")) for each in errors),
        message="; ".join(str(each.get("message", "")) for each in errors),
    )


def merged(failures: Sequence[Failure]) -> Failure:
    """Return one failure for several causes of the same result; there is at least one."""
    return Failure(
        status=max(failure.status for failure in failures),
        codes=tuple(code for failure in failures for code in failure.codes),
        message="; ".join(dict.fromkeys(failure.message for failure in failures)),
    )


def verdict(failure: Failure, what: str) -> ProviderError:
    """
    Return what `failure` means for an attempt to do `what`.

    A limit of the account takes precedence over a sold-out zone, because another zone of the region
    does not help against it. A failure that Google does not explain is an unknown outcome.
    """
    said = f"{what}: {failure.text}"
    told = f"{' '.join(failure.codes)} {failure.message}"
    pause_s = min(LONGEST_PAUSE_S, max(LEAST_PAUSE_S, failure.retry_after_s))
    if _PACING.search(told):
        return ProviderUnavailableError(said, retry_after_s=pause_s)
    if _LIMIT.search(told):
        return NoCapacityError(said, is_limit=True)
    if _SOLD_OUT.search(told) or failure.is_summary:
        return NoCapacityError(said)
    if failure.status == 429:
        return ProviderUnavailableError(said, retry_after_s=pause_s)
    if 400 <= failure.status < 500 and failure.status != 409 and not _BUSY.search(told):
        return ProviderRefusedError(said, hint=_HINTS.get(failure.status, ""))
    return ProviderUnavailableError(said, retry_after_s=failure.retry_after_s)


_HINTS = {
    401: "run: gcloud auth application-default login",
    403: "the bastion's account needs roles/compute.instanceAdmin.v1, for TPUs roles/tpu.admin, and"
    " roles/iam.serviceAccountUser on the identity of the pool",
    404: "compare image, reservation, network and zones of the pool with Google's",
}
