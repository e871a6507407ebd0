"""
What EC2's errors mean for a pool: sold out, a limit, a refusal, or an unknown outcome. Pure.

EC2 reports a sold-out zone as a server error (500), so the code takes precedence over the status.
The message keeps EC2's own words.

Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
"""

from __future__ import annotations

import re

from bastion.errors import (
    NoCapacityError,
    ProviderError,
    ProviderRefusedError,
    ProviderUnavailableError,
)

PAUSE_S = 20.0
"""After too many calls. EC2 refills its request quotas within seconds and gives no time."""
GUIDE = "bastion help run-on-aws"

_SOLD_OUT = frozenset(
    {
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientCapacityOnHost",
        "InsufficientCapacity",
        "InsufficientVolumeCapacity",
        "InsufficientFreeAddressesInSubnet",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        # The zone does not offer this type at all; another zone of the pool may.
        "Unsupported",
    }
)
_PACED = frozenset(
    {
        "RequestLimitExceeded",
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "PriorRequestNotComplete",
        "RequestThrottled",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_LIMIT = re.compile(r"(Limit|Count|Quota)Exceeded$")
_PASSING = frozenset(
    {
        "ConcurrentTagAccess",
        "IncorrectInstanceState",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "RequestTimeout",
        "ServiceUnavailable",
        "Unavailable",
    }
)
_RIGHTS = frozenset({"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"})
_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)

MADE_BEFORE = frozenset({"IdempotentInstanceTerminated"})
"""A request with this token was carried out, and its instances have terminated."""
IN_DOUBT = frozenset({"IdempotentParameterMismatch"})
"""A request with this token had other parameters; it may or may not have been carried out."""


def verdict(code: str, message: str, *, status: int, what: str) -> ProviderError:
    """
    Return what an EC2 error means.

    Args:
        code: EC2's error code.
        message: EC2's message.
        status: The HTTP status.
        what: What was being done.
    """
    said = f"{what}: {code}: {' '.join(message.split())}"[:600]
    if code in _PACED or status == 429:
        return ProviderUnavailableError(said, retry_after_s=PAUSE_S)
    if code in _SOLD_OUT:
        return NoCapacityError(said)
    if _LIMIT.search(code):
        return NoCapacityError(
            said, hint="request an increase in the Service Quotas console", is_limit=True
        )
    if code in IN_DOUBT:
        return ProviderUnavailableError(
            f"{said} An earlier request for the same machines may have been carried out; if so,"
            " they are listed soon"
        )
    if code in _PASSING or status >= 500 or status < 400:
        return ProviderUnavailableError(said)
    return ProviderRefusedError(said, hint=_hint(code))


def _hint(code: str) -> str:
    if code in _RIGHTS:
        return f"grant the bastion's role what {GUIDE} lists"
    if code in _CREDENTIALS:
        return "check the bastion's credentials and clock; run: aws sts get-caller-identity"
    return ""
