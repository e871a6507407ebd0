"""What Google's errors mean, in the words that Google uses."""

from __future__ import annotations

import pytest

from bastion.errors import (
    NoCapacityError,
    ProviderError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.provider.gcp.verdicts import Failure, of_rpc, verdict

SOLD_OUT = (
    Failure(status=503, codes=("ZONE_RESOURCE_POOL_EXHAUSTED",), message="try another zone"),
    Failure(status=0, codes=("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",), message="H100"),
    Failure(status=400, codes=("VM_MIN_COUNT_NOT_REACHED",), message="minimum count of 4"),
    Failure(
        status=400,
        codes=("badRequest",),
        message="Specified reservations [big-one] do not have available resources for the request",
    ),
    Failure(
        status=400,
        codes=("IP_SPACE_EXHAUSTED_WITH_DETAILS",),
        message="IP space of 'projects/acme/regions/us-central1/subnetworks/gpus' is exhausted.",
    ),
    Failure(status=503, codes=("resourcePoolExhausted",), message="try another zone"),
    of_rpc(8, 'There is no more capacity in the zone "us-central1-b"; you can try in another zone'),
    of_rpc(8, "Insufficient reserved capacity. Contact customer support [EID: 0x7adf6d58c08b0aa4]"),
)
LIMITS = (
    Failure(status=403, codes=("quotaExceeded",), message="Quota 'GPUS_ALL_REGIONS' exceeded."),
    Failure(status=0, codes=("QUOTA_EXCEEDED",), message="Limit: 8.0 in region us-central1."),
    Failure(
        status=0,
        codes=("VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED", "QUOTA_EXCEEDED"),
        message="several causes",
    ),
    of_rpc(8, "Quota 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI' exhausted. Limit 20800"),
)
REFUSALS = (
    Failure(status=403, codes=("forbidden",), message="Required 'compute.instances.create'"),
    Failure(status=403, codes=("accessNotConfigured",), message="Compute Engine API not enabled"),
    Failure(status=400, codes=("invalid",), message="Invalid value for field 'resource.name'"),
    Failure(status=404, codes=("notFound",), message="The resource 'images/x' was not found"),
    Failure(status=401, codes=("authError",), message="Invalid Credentials"),
    of_rpc(7, "Permission denied on resource project acme"),
)
PASSING = (
    Failure(status=403, codes=("rateLimitExceeded",), message="Queries per minute per user"),
    Failure(status=429, codes=("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED"), message="Quota ..."),
    Failure(status=429),
    Failure(status=503, codes=("backendError",), message="We encountered an internal error"),
    Failure(status=400, codes=("resourceNotReady",), message="The resource is not ready"),
    Failure(status=0, codes=("INTERNAL_ERROR",), message="Code: 7158372"),
    Failure(status=500),
)


@pytest.mark.parametrize(
    ("failure", "meant"),
    [
        *((each, NoCapacityError) for each in (*SOLD_OUT, *LIMITS)),
        *((each, ProviderRefusedError) for each in REFUSALS),
        *((each, ProviderUnavailableError) for each in PASSING),
    ],
)
def test_each_error_has_one_meaning(failure: Failure, meant: type[ProviderError]) -> None:
    """Each error is sold out, limited, refused or temporary, and keeps Google's words."""
    error = verdict(failure, "2 x a3-highgpu-8g in us-central1-a")
    assert type(error) is meant
    assert str(error).startswith("2 x a3-highgpu-8g in us-central1-a: ")
    assert failure.message in str(error)
    assert not isinstance(error, NoCapacityError) or error.is_limit is (failure in LIMITS)
