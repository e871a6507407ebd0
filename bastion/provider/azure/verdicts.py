"""
What Azure's errors mean for a pool: sold out, a limit, a refusal, or an unknown outcome. Pure.

Azure reports a lack of capacity in the answer to a request, or in the operation that the request
started. The codes are the same. The message keeps Azure's own words.

Source: Azure Resource Manager, "Troubleshoot common Azure deployment errors"; Azure Virtual
Machines, "Troubleshoot allocation failures"; "Understand how Azure Resource Manager throttles
requests".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from bastion.errors import (
    NoCapacityError,
    ProviderError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.value import value

LEAST_PAUSE_S = 20.0
"""After too many calls, unless Azure asks for a longer pause: its limits refill by the minute."""
LONGEST_PAUSE_S = 300.0
GUIDE = "bastion help run-on-azure"

_SOLD_OUT = frozenset(
    {
        "AllocationFailed",
        "OverconstrainedAllocationRequest",
        "OverconstrainedZonalAllocationRequest",
        "SkuNotAvailable",
        "ZonalAllocationFailed",
    }
)
_LIMIT = re.compile(r"quota", re.IGNORECASE)
"""OperationNotAllowed also has other causes; only its message tells that a quota is reached."""
_LIMITS = frozenset({"OperationNotAllowed", "QuotaExceeded", "ResourceQuotaExceeded"})
_PASSING = frozenset(
    {
        "AnotherOperationInProgress",
        "Conflict",
        "InternalExecutionError",
        "InternalServerError",
        "OperationPreempted",
        "RetryableError",
        "RetryableErrorDueToAnotherOperation",
    }
)
_BUSY = re.compile(r"marked for deletion|being deleted|in progress", re.IGNORECASE)


@value
class Failure:
    """One error of Azure's, from an answer or an operation."""

    status: int
    """HTTP status; 0 for an operation."""
    code: str = ""
    message: str = ""
    retry_after_s: float = 0.0

    @property
    def text(self) -> str:
        """Code and message in one line of limited length."""
        said = " ".join(f"{self.code or self.status}: {self.message}".split())
        return said[:500]

    @property
    def is_missing(self) -> bool:
        """Whether the requested resource does not exist."""
        return self.status == 404 and self.code in ("ResourceNotFound", "NotFound")

    @property
    def exists(self) -> bool:
        """Whether the VM to create exists already."""
        return self.status == 412


def failure_of(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Return an HTTP error with Azure's explanation in JSON, if there is one."""
    asked = headers.get("retry-after", "")
    found = Failure(
        status=status,
        message=body[:300].decode(errors="replace").strip(),
        retry_after_s=float(asked) if asked.isdecimal() else 0.0,
    )
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        code, message = _told(json.loads(body)["error"])
        return Failure(status=status, code=code, message=message, retry_after_s=found.retry_after_s)
    return found


def of_operation(said: Mapping[str, Any]) -> Failure | None:
    """Return why an operation failed; None if it succeeded or still runs."""
    if said.get("status") not in ("Failed", "Canceled"):
        return None
    code, message = _told(said.get("error") or {})
    return Failure(status=0, code=code or str(said["status"]), message=message)


def verdict(failure: Failure, what: str) -> ProviderError:
    """
    Return what `failure` means for an attempt to do `what`.

    A failure that Azure does not explain is an unknown outcome.
    """
    said = f"{what}: {failure.text}"
    if failure.status == 429:
        pause_s = min(LONGEST_PAUSE_S, max(LEAST_PAUSE_S, failure.retry_after_s))
        return ProviderUnavailableError(said, retry_after_s=pause_s)
    if failure.code in _SOLD_OUT:
        return NoCapacityError(said)
    if failure.code in _LIMITS and (_LIMIT.search(failure.code) or _LIMIT.search(failure.message)):
        return NoCapacityError(
            said, hint="request an increase under Quotas in the Azure portal", is_limit=True
        )
    is_passing = failure.code in _PASSING or _BUSY.search(failure.message) is not None
    if 400 <= failure.status < 500 and failure.status != 408 and not is_passing:
        return ProviderRefusedError(said, hint=_HINTS.get(failure.status, ""))
    return ProviderUnavailableError(said, retry_after_s=failure.retry_after_s)


_HINTS = {
    401: "run: az login; on a machine of Azure, assign it a managed identity",
    403: f"grant the bastion's identity what {GUIDE} lists",
    404: "compare subscription, resource_group, image, network and identity of the pool with"
    " Azure's",
}


def _told(error: Mapping[str, Any]) -> tuple[str, str]:
    """Return the code and the message of an error; a detail is more precise than what wraps it."""
    code, message = str(error.get("code", "")), str(error.get("message", ""))
    for detail in error.get("details") or ():
        if detail.get("code") in _SOLD_OUT | _LIMITS:
            return str(detail["code"]), str(detail.get("message", "")) or message
    return code, message
