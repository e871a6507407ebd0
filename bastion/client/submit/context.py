"""The context of a launch's check: read once and passed as a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from bastion.errors import NotFoundError, SpecError
from bastion.spec.launch import Launch
from bastion.value import field, value
from quota.amounts import Amounts

if TYPE_CHECKING:
    from quota.tree import Quota


@value
class LaunchContext:
    """The facts that a launch is checked against."""

    project: str = ""
    """The project that the launch is charged to; empty if there is a problem with it."""
    types: frozenset[str] = frozenset()
    """Resource types of the quota file; without one, those of the catalog and the machines."""
    here: frozenset[str] = frozenset()
    """Those types that the quota file or a machine has."""
    targets: Mapping[str, str] = field(default_factory=dict)
    """Ids of the jobs and launches that it waits for, by the name in the launch."""
    user: str = ""
    """The user who submits it; limits apply per user."""
    quota: Quota | None = None
    """The quota file, or None if it cannot be read."""
    problems: tuple[str, ...] = ()
    """Problems with the project, or with the names of targets."""
    hint: str = ""


def read_context(
    launch: Launch,
    *,
    quota: Quota | None,
    user: str,
    project: str,
    machines: Callable[[], Iterable[Amounts]],
    find: Callable[[str, str], str],
) -> LaunchContext:
    """
    Read what `launch` is checked against.

    Args:
        launch: The launch as specified.
        quota: The quota file, or None if it cannot be read.
        user: The user who submits it.
        project: The user's project, if the launch names none.
        machines: Reads the resources of machines; called only for a resource type that is not known
            otherwise.
        find: Reads the id of the job or launch that a name means in a project.

    Raises:
        StoreError: The bucket is unreachable.
    """
    here = set(quota.types if quota is not None else ())
    asked = {name for job in launch.jobs for name in job.per_replica.types()}
    types = here if asked <= here else _of_catalog() | here
    if not asked <= types:
        here |= {name for resources in machines() for name in resources.types()}
        types |= here
    try:
        charged = resolve_project(quota, user, launch.project or project)
    except SpecError as error:
        return LaunchContext(
            types=frozenset(types), here=frozenset(here), problems=error.problems, hint=error.hint
        )
    targets: dict[str, str] = {}
    problems: list[str] = []
    for name in launch.waits_for_others:
        try:
            targets[name] = find(name, charged)
        except (NotFoundError, SpecError) as error:
            problems.append(f"after: {error.message}")
    return LaunchContext(
        project=charged,
        types=frozenset(types),
        here=frozenset(here),
        targets=targets,
        user=user,
        quota=quota,
        problems=tuple(problems),
        hint="bastion list --all shows what there is to wait for" if problems else "",
    )


def _of_catalog() -> set[str]:
    from bastion.catalog import resource_types

    return set(resource_types())


def resolve_project(quota: Quota | None, user: str, project: str) -> str:
    """
    Return the project that a request of `user` is charged to.

    Args:
        quota: The quota file, or None if it cannot be read: then `project` is not checked.
        user: The user who submits it.
        project: What the user named, or empty for the user's only project.

    Raises:
        SpecError: There is none, or several; the message lists them.
    """
    if quota is None:
        if project:
            return project
        raise SpecError(
            "project: none named, and the quota file that lists yours cannot be read",
            hint="name it: --project_id=PROJECT",
        )
    found = quota.resolve_project(user, project or None)
    if isinstance(found, str):
        return found
    from quota.refusal import AmbiguousProject

    hint = "-p names a project, --pool=NAME a pool, --user_id=USER says who you are"
    if isinstance(found, AmbiguousProject):
        hint += "; bastion config set project=NAME names one for every launch"
    raise SpecError(f"project: {found}", hint=hint)
