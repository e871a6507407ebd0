"""The missing permissions of an identity in a Google project, per Google's description."""

from __future__ import annotations

import pytest

from bastion.clock import VirtualClock
from bastion.errors import ProviderRefusedError
from bastion.provider.gcp.api import Api
from bastion.provider.gcp.gce import GceProvider
from bastion.provider.gcp.rights import TPUS, VMS
from bastion.provider.gcp.tpu import GcpTpuProvider
from bastion.provider.port import TellsRights
from tests.contracts import google_places
from tests.servers.google.accounts import Project, servers
from tests.servers.google.cloud import ApiError

PROVIDERS = {
    "gce": (GceProvider, google_places.GPUS, VMS),
    "gcp_tpu": (GcpTpuProvider, google_places.TPUS, TPUS),
}


@pytest.mark.parametrize("kind", PROVIDERS)
def test_each_permission_that_is_missing_is_told(kind: str) -> None:
    """All, none, or one is missing; if Google does not answer, that is an error, not a verdict."""
    clock, project = VirtualClock(), Project()
    made, pool, wanted = PROVIDERS[kind]
    with servers(project, clock)["cloudresourcemanager"] as server:
        api = Api("cloudresourcemanager", project="acme", clock=clock, endpoint=server.url)
        provider = made(pool, bucket="b", script=lambda *_: "", api=api, projects=api)
        assert isinstance(provider, TellsRights)
        assert provider.lacking() == tuple(f"lacks {each} in project acme" for each in wanted)
        project.permissions = set(wanted)
        assert provider.lacking() == ()
        project.permissions.discard(wanted[1])
        assert provider.lacking() == (f"lacks {wanted[1]} in project acme",)
        server.fail("testIam", ApiError(403, "accessNotConfigured", "The API is disabled"))
        with pytest.raises(ProviderRefusedError, match="The API is disabled"):
            provider.lacking()
        assert server.problems == []
