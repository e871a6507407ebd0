"""What EC2's errors mean."""

from __future__ import annotations

import pytest

from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.provider.aws.verdicts import PAUSE_S, verdict


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("InsufficientInstanceCapacity", 500),
        ("InsufficientHostCapacity", 500),
        ("InsufficientReservedInstanceCapacity", 500),
        ("ReservationCapacityExceeded", 400),
        ("SpotMaxPriceTooLow", 400),
        ("Unsupported", 400),
    ],
)
def test_a_sold_out_zone_is_no_capacity(code: str, status: int) -> None:
    """A zone without capacity is a verdict, even if EC2 reports it as a server error."""
    found = verdict(code, "We have\n none", status=status, what="create 1 p5 in us-east-1a")
    assert isinstance(found, NoCapacityError)
    assert not found.is_limit
    assert found.message == f"create 1 p5 in us-east-1a: {code}: We have none"


@pytest.mark.parametrize(
    "code", ["VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded"]
)
def test_a_limit_of_the_account_is_told_apart(code: str) -> None:
    """A quota of the account is a lack of capacity, reported as a limit."""
    found = verdict(code, "asked for 192 vCPU", status=400, what="create")
    assert isinstance(found, NoCapacityError)
    assert found.is_limit
    assert "Service Quotas" in found.hint


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "Throttling", "SlowDown"])
def test_throttling_asks_for_patience(code: str) -> None:
    """A call beyond the rate limit is retried after a pause, and is no limit of the account."""
    found = verdict(code, "", status=503, what="list")
    assert isinstance(found, ProviderUnavailableError)
    assert found.retry_after_s == PAUSE_S


@pytest.mark.parametrize(
    ("code", "status"),
    [("InternalError", 500), ("Unavailable", 503), ("504", 504), ("Odd", 500), ("", 0)],
)
def test_a_failing_server_leaves_the_outcome_unknown(code: str, status: int) -> None:
    """An error that EC2 does not explain may mean that the call was done."""
    assert isinstance(verdict(code, "", status=status, what="list"), ProviderUnavailableError)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("UnauthorizedOperation", "bastion help run-on-aws"),
        ("AuthFailure", "credentials"),
        ("RequestExpired", "credentials"),
        ("InvalidAMIID.NotFound", ""),
        ("InvalidParameterValue", ""),
    ],
)
def test_a_wrong_setting_is_refused(code: str, hint: str) -> None:
    """What an admin must fix is refused, with what to do if that is known."""
    found = verdict(code, "no", status=403, what="create")
    assert isinstance(found, ProviderRefusedError)
    assert hint in found.hint


def test_a_token_with_other_parameters_is_in_doubt() -> None:
    """A request that was changed between two tries may have been carried out."""
    found = verdict("IdempotentParameterMismatch", "no", status=400, what="create")
    assert isinstance(found, ProviderUnavailableError)
    assert "may have been carried out" in found.message
