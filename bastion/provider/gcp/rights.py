"""What the identity in use may not do in a project: Google reports it, and nothing is created."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.provider.gcp.api import Api

VMS = (
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.list",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.disks.create",
    "compute.subnetworks.use",
)
TPUS = ("tpu.nodes.create", "tpu.nodes.delete", "tpu.nodes.list")


def lacking(projects: Api | None, wanted: Sequence[str]) -> tuple[str, ...]:
    """
    Return a line for each of the permissions `wanted` that the identity lacks in the project.

    Args:
        projects: The API of projects; None: nothing is queried.
        wanted: Google's names for them.

    Raises:
        ProviderError: Google does not report them.
    """
    if projects is None:
        return ()
    request = projects.resource("projects").testIamPermissions(
        resource=projects.project, body={"permissions": list(wanted)}
    )
    answer = projects.call(request, f"rights in project {projects.project}")
    missing = [each for each in wanted if each not in answer.get("permissions", ())]
    return tuple(f"lacks {each} in project {projects.project}" for each in missing)
