"""A quota file as a table: groups, the projects in them, their shares and limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bastion.spec.values.quantity import text_of_limit
from bastion.value import value
from launch.screen.render import Column, amounts, counted
from quota.amounts import Amounts
from quota.limits import Limits

if TYPE_CHECKING:
    from quota.tree import Node, Quota


@value
class QuotaRow:
    """One project, or one group of projects."""

    name: str
    kind: str
    """`project` or `group`."""
    depth: int = 0
    """The number of groups around it."""
    share: Amounts
    ceiling: Amounts
    lends: Amounts
    limits: tuple[str, ...] = ()
    """Limits of it and its users, whether it borrows, and its weight, if the file sets them."""
    members: tuple[str, ...] = ()
    """Users, or projects and groups."""


def quota_rows(quota: Quota) -> list[QuotaRow]:
    """Return groups by name, each before its members; then the projects without a group."""
    top = sorted(quota.top(), key=lambda node: (node.name not in quota.groups, node.name))
    return [row for node in top for row in _rows(quota, node)]


def quota_columns(rows: Sequence[QuotaRow]) -> list[Column[QuotaRow]]:
    """Return the columns of the table; the column of limits only if there are any."""
    limits: Column[QuotaRow] = Column(title="LIMITS", text=lambda row: "; ".join(row.limits))
    return [
        Column(title="PROJECT", text=lambda row: "  " * row.depth + row.name),
        Column(title="SHARE", text=lambda row: amounts(row.share)),
        Column(title="CEILING", text=lambda row: amounts(row.ceiling)),
        Column(title="LENDS", text=lambda row: amounts(row.lends)),
        *([limits] if any(row.limits for row in rows) else []),
        Column(title="MEMBERS", text=lambda row: ", ".join(row.members)),
    ]


def _rows(quota: Quota, node: Node) -> Iterator[QuotaRow]:
    group, project = quota.groups.get(node.name), quota.projects.get(node.name)
    limits = [f"weight {node.weight:.15g}"] if node.weight != 1 else []
    limits += [f"at most {node.budget}"] if node.budget else []
    if project is not None:
        limits += [] if project.borrow else ["does not borrow"]
        limits += [text] if (text := _limits(project.limits)) else []
        limits += [f"{p.written[0]}: {_limits(each)}" for p, each in project.user_limits]
    yield QuotaRow(
        name=node.name,
        kind="project" if group is None else "group",
        depth=len(quota.groups_of(node.name)),
        share=node.nominal,
        ceiling=node.ceiling,
        lends=node.lending_limit,
        limits=tuple(limits),
        members=group.members if group else project.members.written if project else (),
    )
    for member in group.members if group else ():
        yield from _rows(quota, quota.node(member))


def _limits(limits: Limits) -> str:
    """Return text such as `runs 8h by default, at most 3d, per user: 16 h100, 4 jobs`."""
    said = []
    if limits.default_max_runtime_s is not None:
        said.append(f"runs {text_of_limit(limits.default_max_runtime_s)} by default")
    if limits.max_max_runtime_s is not None:
        said.append(f"{'' if said else 'runs '}at most {text_of_limit(limits.max_max_runtime_s)}")
    has = [f"{most} {kind}" for kind, most in limits.max_units.items()]
    has += [counted(limits.max_running, "job")] if limits.max_running is not None else []
    said += [f"per user: {', '.join(has)}"] if has else []
    return ", ".join(said)
