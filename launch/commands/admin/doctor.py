"""Machines at their providers: who may list them, what they are, what nobody needs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from launch import exits
from launch.grammar.parser import Verbs, switch
from launch.screen.notes import note
from launch.screen.render import Column
from launch.session import Session

if TYPE_CHECKING:
    from bastion.service.repair.inventory import Inspection, Odd


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "doctor",
        doctor,
        "hold what providers have against what the bastion knows",
        prints=True,
        text="It lists every pool with your own credentials: whether its settings are right,"
        " whether its provider answers and lets you list, and which machines nothing needs."
        " Without --fix it only reads. A bastion that leads deletes orphans by itself. Exit code 1"
        " when anything is odd.",
        example="bastion doctor\nbastion doctor --fix --yes",
    )
    switch(parser, "--fix", "show what would be deleted: orphans")
    switch(parser, "--yes", "with --fix: delete them")


def doctor(args: argparse.Namespace) -> int:
    """`bastion doctor`."""
    from bastion.admin import Admin

    session = Session(args)
    admin = Admin(session.profile.root)
    found = admin.inspection()
    columns: list[Column[Odd]] = [
        Column(title="KIND", text=lambda odd: odd.kind),
        Column(title="POOL", text=lambda odd: odd.pool),
        Column(title="MACHINE", text=lambda odd: odd.machine),
        Column(title="ZONE", text=lambda odd: odd.zone),
        Column(title="COST/H", text=_cost),
        Column(title="WHAT", text=lambda odd: odd.text),
    ]
    if found.odd or session.is_quiet:
        session.out.show("odd", found.odd, columns, name=lambda odd: odd.machine or odd.pool)
    _tell(found)
    orphans = [odd for odd in found.odd if odd.kind == "orphan"]
    if args.fix and orphans and not args.yes:
        note(f"bastion doctor --fix --yes deletes {len(orphans)} orphans; nothing was changed")
    failed = 0
    for odd, why in admin.delete_orphans(found) if args.fix and args.yes else ():
        note(f"{odd.machine}: {why or 'is being deleted'}")
        failed += bool(why)
    return exits.FAILED if found.odd or failed else exits.OK


def _tell(found: Inspection) -> None:
    for pool, count in found.listed.items():
        note(
            f"pool {pool}: its provider answers, and has {count} machines of bucket {found.bucket}"
        )
    for pool in found.unlisted:
        note(f"pool {pool}: is not looked at; its machines are the bastion's own host")
    cost = sum(odd.price_per_hour for odd in found.odd if odd.kind != "absent")
    if cost:
        note(f"what nothing needs costs {cost:,.2f} an hour, by the prices in config/bastion.toml")


def _cost(odd: Odd) -> str:
    return f"{odd.price_per_hour:,.2f}" if odd.price_per_hour else ""
