"""What a new quota file changes: the difference of two quotas, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from operator import itemgetter

from quota.amounts import Amounts
from quota.limits import Limits
from quota.tree import Project, Quota
from quota.value import value


@value
class ShareChange:
    """A project's own share changes; a project absent before or after has a share of nothing."""

    project: str
    before: Amounts
    after: Amounts

    @property
    def difference(self) -> Amounts:
        """Units gained; negative if units are lost."""
        return self.after - self.before

    def __str__(self) -> str:
        return f"{self.project}: {self.before} -> {self.after}"


@value
class MemberChange:
    """A project's members change; names and patterns as in the files."""

    project: str
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def __str__(self) -> str:
        signed = [f"+{user}" for user in self.added] + [f"-{user}" for user in self.removed]
        return f"members of {self.project}: {' '.join(signed)}"


@value
class OptionChange:
    """Another value changes; `path` is its place in the file."""

    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}: {self.before} -> {self.after}"


@value
class QuotaChange:
    """All differences between two quotas; false if there are none."""

    shares: tuple[ShareChange, ...] = ()
    """By project."""
    members: tuple[MemberChange, ...] = ()
    """By project."""
    options: tuple[OptionChange, ...] = ()
    """
    Tiers, options of projects, groups, maintenance, the scheduler.

    For a new project, the values that differ from the defaults; for a removed one, none.
    """

    def __bool__(self) -> bool:
        return bool(self.shares or self.members or self.options)


def compare(old: Quota, new: Quota) -> QuotaChange:
    """Return what differs in `new`; two files with the same meaning give no change."""
    names = sorted({*old.projects, *new.projects})
    plain = {name: Project(name=name, ceiling=old.totals) for name in new.projects}
    before = [old.projects.get(name, plain[name]) for name in names if name in new.projects]
    after = [new.project(name) for name in names if name in new.projects]
    pairs = [(old.project(name), new.project(name)) for name in names]
    return QuotaChange(
        shares=tuple(
            ShareChange(project=before.name, before=before.nominal, after=after.nominal)
            for before, after in pairs
            if before.nominal != after.nominal
        ),
        members=tuple(change for pair in pairs if (change := _members(*pair))),
        options=(
            *_options(_tiers(old), _tiers(new)),
            *_options(_projects(before, old.totals), _projects(after, new.totals)),
            *_options(_groups(old), _groups(new)),
            *_options(_windows(old), _windows(new)),
            *_options(_scheduler(old), _scheduler(new)),
        ),
    )


def _members(before: Project, after: Project) -> MemberChange | None:
    was, now = set(before.members.written), set(after.members.written)
    if was == now:
        return None
    added, removed = tuple(sorted(now - was)), tuple(sorted(was - now))
    return MemberChange(project=before.name, added=added, removed=removed)


def _options(before: dict[str, str], after: dict[str, str]) -> tuple[OptionChange, ...]:
    """Return the options that differ between two flat tables, in their order."""
    return tuple(
        OptionChange(path=path, before=before.get(path, "absent"), after=after.get(path, "absent"))
        for path in before | after
        if before.get(path) != after.get(path)
    )


def _tiers(quota: Quota) -> dict[str, str]:
    if len(quota.tiers) == 1:
        units = quota.tiers[0].units
        return {"total_resources": " + ".join(f"{units[kind]} {kind}" for kind in _kinds(quota))}
    return {
        "total_resources": ", ".join(_kinds(quota)),
        **{f"total_resources[{i}]": f"{t.name}: {t.units}" for i, t in enumerate(quota.tiers)},
    }


def _kinds(quota: Quota) -> list[str]:
    """Return the types, including those with a total of zero."""
    return sorted(quota.types)


def _projects(projects: Iterable[Project], totals: Amounts) -> dict[str, str]:
    """Return the options of `projects`; a limit that limits nothing is `all`."""
    options: dict[str, str] = {}
    users: dict[str, Limits] = {}
    for project in sorted(projects, key=lambda each: each.name):
        ceiling = "all" if project.ceiling == totals else str(project.ceiling)
        lend = str(project.lending_limit) if project.kept else "all"
        path = f"project_options.{project.name}"
        options[f"{path}.ceiling"] = ceiling
        options[f"{path}.lend"] = lend
        options[f"{path}.order"] = project.order
        options[f"{path}.admins"] = ", ".join(sorted(project.admins.written)) or "none"
        options[f"{path}.borrow"] = str(project.borrow).lower()
        options[f"{path}.weight"] = f"{project.weight:.15g}"
        options |= {f"{path}.budget": str(project.budget)} if project.budget else {}
        options |= _limits(path, project.limits, of_all="_per_user")
        options |= {f"{path}.users": _precedence(project)} if project.user_limits else {}
        users |= {f"{path}.users.{each.written[0]}": limits for each, limits in project.user_limits}
    for path, limits in sorted(users.items(), key=itemgetter(0)):
        options |= _limits(path, limits)
    return options


def _precedence(project: Project) -> str:
    """Return whose limits differ: names, then patterns in the order in which they are tried."""
    every = [people for people, _ in project.user_limits]
    names = sorted(people.written[0] for people in every if not people.has_patterns)
    return ", ".join([*names, *(people.written[0] for people in every if people.has_patterns)])


def _limits(path: str, limits: Limits, *, of_all: str = "") -> dict[str, str]:
    """Return the limits that are set; one that only the other file sets is `absent`."""
    seconds = {
        "default_max_runtime": limits.default_max_runtime_s,
        "max_max_runtime": limits.max_max_runtime_s,
    }
    found = {f"{path}.{key}": f"{s:.15g} s" for key, s in seconds.items() if s is not None}
    found |= {f"{path}.max_units{of_all}.{kind}": str(n) for kind, n in limits.max_units.items()}
    if limits.max_running is not None:
        found[f"{path}.max_running{of_all}"] = str(limits.max_running)
    return found


def _groups(quota: Quota) -> dict[str, str]:
    options = {}
    for name, group in quota.groups.items():
        path = f"project_groups.{name}"
        options[f"{path}.members"] = ", ".join(group.members)
        options[f"{path}.share"] = str(group.nominal)
        options[f"{path}.ceiling"] = "all" if group.ceiling == quota.totals else str(group.ceiling)
        options[f"{path}.lend"] = str(group.lending_limit) if group.kept else "all"
        options[f"{path}.weight"] = f"{group.weight:.15g}"
        options |= {f"{path}.budget": str(group.budget)} if group.budget else {}
    return options


def _windows(quota: Quota) -> dict[str, str]:
    """Return every window by its start, and by its number among those that start together."""
    options: dict[str, str] = {}
    for window in quota.maintenance:
        began = datetime.fromtimestamp(window.starts_at, UTC).isoformat(timespec="minutes")
        path = f"maintenance[{began}]"
        same = sum(each.partition("#")[0] == path for each in options)
        options[path + (f"#{same + 1}" if same else "")] = str(window)
    return options


def _scheduler(quota: Quota) -> dict[str, str]:
    return {f"scheduler.{key}": str(value) for key, value in asdict(quota.scheduler).items()}
