"""What Azure's errors mean."""

from __future__ import annotations

import json

import pytest

from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.provider.azure.verdicts import (
    LEAST_PAUSE_S,
    LONGEST_PAUSE_S,
    Failure,
    failure_of,
    of_operation,
    verdict,
)

_QUOTA = "results in exceeding approved standardNDSH100v5Family Cores quota"


@pytest.mark.parametrize(
    "code",
    [
        "AllocationFailed",
        "OverconstrainedAllocationRequest",
        "OverconstrainedZonalAllocationRequest",
        "SkuNotAvailable",
        "ZonalAllocationFailed",
    ],
)
@pytest.mark.parametrize("status", [0, 409], ids=["operation", "answer"])
def test_a_sold_out_zone_is_no_limit(code: str, status: int) -> None:
    """The code counts, whether the answer or the operation has it."""
    error = verdict(Failure(status=status, code=code, message="none left"), "2 x A in b")
    assert isinstance(error, NoCapacityError)
    assert not error.is_limit
    assert str(error).startswith(f"2 x A in b: {code}: none left")


@pytest.mark.parametrize(
    ("code", "message"),
    [("OperationNotAllowed", _QUOTA), ("QuotaExceeded", "too many cores")],
    ids=["operation-not-allowed", "quota-exceeded"],
)
def test_a_quota_is_a_limit(code: str, message: str) -> None:
    """A limit of the subscription is told apart from a sold-out zone."""
    error = verdict(Failure(status=409, code=code, message=message), "create")
    assert isinstance(error, NoCapacityError)
    assert error.is_limit


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (400, "InvalidParameter", "the size is unknown"),
        (403, "AuthorizationFailed", "no authorization"),
        (404, "ResourceGroupNotFound", "could not be found"),
        (404, "ImageNotFound", "could not be found"),
        (409, "OperationNotAllowed", "spot is not supported for this subscription"),
        (409, "PropertyChangeNotAllowed", "changing property is not allowed"),
    ],
)
def test_a_wrong_setting_is_a_refusal(status: int, code: str, message: str) -> None:
    """An admin must act."""
    error = verdict(Failure(status=status, code=code, message=message), "create")
    assert isinstance(error, ProviderRefusedError)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (0, "OSProvisioningTimedOut", "did not finish in the allotted time"),
        (409, "OperationNotAllowed", "VM 'a' is marked for deletion"),
        (409, "AnotherOperationInProgress", "busy"),
        (408, "", ""),
        (500, "InternalServerError", ""),
        (503, "", "<html>"),
    ],
)
def test_an_unclear_failure_is_an_unknown_outcome(status: int, code: str, message: str) -> None:
    """The request is repeated."""
    error = verdict(Failure(status=status, code=code, message=message), "create")
    assert isinstance(error, ProviderUnavailableError)


@pytest.mark.parametrize(
    ("asked", "pause_s"),
    [("", LEAST_PAUSE_S), ("7", LEAST_PAUSE_S), ("90", 90.0), ("9999", LONGEST_PAUSE_S)],
    ids=["none", "short", "plain", "long"],
)
def test_too_many_calls_pause_as_long_as_azure_asks(asked: str, pause_s: float) -> None:
    """The pause has limits."""
    headers = {"retry-after": asked} if asked else {}
    error = verdict(failure_of(429, headers, b"{}"), "list")
    assert isinstance(error, ProviderUnavailableError)
    assert error.retry_after_s == pause_s


def test_a_detail_says_more_than_what_wraps_it() -> None:
    """An answer that wraps the cause is read down to it; one without JSON keeps its text."""
    wrapped = {
        "error": {
            "code": "DeploymentFailed",
            "message": "see details",
            "details": [{"code": "SkuNotAvailable", "message": "not in zone 1"}],
        }
    }
    found = failure_of(409, {}, json.dumps(wrapped).encode())
    assert (found.code, found.message) == ("SkuNotAvailable", "not in zone 1")
    assert failure_of(502, {}, b"<html>bad gateway").text == "502: <html>bad gateway"
    assert failure_of(400, {}, b'{"error": null}').status == 400


def test_an_operation_tells_its_failure_once_it_has_ended() -> None:
    """A running or successful operation has none."""
    assert of_operation({"status": "InProgress"}) is None
    assert of_operation({"status": "Succeeded"}) is None
    assert of_operation({"status": "Canceled"}) == Failure(status=0, code="Canceled")
    said = {"status": "Failed", "error": {"code": "AllocationFailed", "message": "m"}}
    assert of_operation(said) == Failure(status=0, code="AllocationFailed", message="m")
