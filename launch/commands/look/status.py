"""The bastion: its leader, the files in force, and problems."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bastion.version import version_line
from launch import exits
from launch.grammar.parser import Verbs
from launch.screen.notes import note, note_maintenance
from launch.screen.render import Column, amounts, iso, plain, span
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import BudgetView, ProjectView, StatusView


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    verbs.add(
        "status",
        show,
        prints=True,
        example="bastion status",
    )


def show(args: argparse.Namespace) -> int:
    """`bastion status`."""
    session = Session(args)
    view = session.client.status()
    out = session.out
    if out.format == "json":
        out.json({"status": plain(view)})
        return exits.OK
    if out.format != "name":
        out.fields(_fields(session, view))
    if view.projects:
        out.show("projects", view.projects, _projects(view), name=lambda project: project.name)
    if view.budgets and out.format != "name":
        out.show("budgets", view.budgets, _budgets(view), name=lambda budget: budget.of)
    if not session.is_quiet:
        note_maintenance(view.maintenance)
    for problem in (*view.refused_files, *view.problems):
        note(f"problem: {problem}")
    session.note_silence()
    return exits.OK


def _fields(session: Session, view: StatusView) -> list[tuple[str, str]]:
    out = session.out
    counts = ", ".join(f"{count} {out.state(state)}" for state, count in view.counts.items())
    if counts and view.absence:  # the counts are from that time
        counts += " when it stopped" if view.is_given_up else " when it was last seen"
    return [
        ("bastion", session.profile.root),
        ("leader", _leader(view)),
        ("since", out.time(view.since) if view.leader else ""),
        ("epoch", f"{view.epoch}, commit {view.seq}"),
        ("bucket", view.bucket),
        ("version", version_line(view.version, view.build)),
        ("jobs", counts or "none"),
        ("quota", view.quota_version),
        (
            "as of",
            f"{out.time(view.as_of)} ({iso(view.as_of)})" if out.terminal else iso(view.as_of),
        ),
    ]


def _leader(view: StatusView) -> str:
    if view.is_given_up:
        return f"none: the last one stopped {span(view.silent_s)} ago"
    silence = f", silent for {span(view.silent_s)}" if view.is_silent else ""
    return f"{view.leader} on {view.host}{silence}"


def _projects(view: StatusView) -> list[Column[ProjectView]]:
    def waits(project: ProjectView) -> str:
        since = project.waiting_since
        return "" if since is None else span(max(0.0, view.as_of - since))

    return [
        Column(title="PROJECT", text=lambda project: project.name),
        Column(title="SHARE", text=lambda project: amounts(project.nominal)),
        Column(title="HOLDS", text=lambda project: amounts(project.usage)),
        Column(title="BORROWED", text=lambda project: amounts(project.borrowed)),
        Column(title="LENT", text=lambda project: amounts(project.lent)),
        Column(title="QUEUED", text=lambda project: str(project.queued)),
        Column(title="LONGEST WAIT", text=waits),
    ]


def _budgets(view: StatusView) -> list[Column[BudgetView]]:
    from bastion.spec.values.quantity import text_of_hours

    def left(budget: BudgetView) -> str:
        return f"{text_of_hours(max(0.0, budget.hours - budget.used))} {budget.kind} hours"

    return [
        Column(title="BUDGET OF", text=lambda budget: budget.of),
        Column(title="HOURS", text=lambda budget: f"{budget.hours:,} per {budget.period}"),
        Column(title="USED", text=lambda budget: text_of_hours(budget.used)),
        Column(title="LEFT", text=left),
        Column(title="RENEWED IN", text=lambda budget: span(budget.renewed_at - view.as_of)),
    ]
