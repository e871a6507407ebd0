"""
What EC2's errors mean for a pool: sold out, a limit, a refusal, or an unknown outcome. Pure.

EC2 tells a zone that is sold out as an error of its server (500), so the code decides before the
status does. Its own words stay in the message.

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
"""After a call too many. EC2 refills its buckets of calls within seconds and names no time."""
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
        # The zone does not have this type at all; another zone of the pool may.
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
"""A request with this token was carried out, and its instances are over."""
IN_DOUBT = frozenset({"IdempotentParameterMismatch"})
"""A request with this token came before with other parameters; it may or may not have been done."""


def verdict(code: str, message: str, *, status: int, what: str) -> ProviderError:
    """
    Return what an error of EC2 means.

    Args:
        code: As EC2 calls it.
        message: Its words.
        status: Of HTTP.
        what: What was being done.
    """
    said = f"{what}: {code}: {' '.join(message.split())}"[:600]
    if code in _PACED or status == 429:
        return ProviderUnavailableError(said, retry_after_s=PAUSE_S)
    if code in _SOLD_OUT:
        return NoCapacityError(said)
    if _LIMIT.search(code):
        return NoCapacityError(
            said, hint="ask for more in the console of Service Quotas", is_limit=True
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
