"""Machines at their providers: which can be listed, and which are not needed."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from launch import exits
from launch.grammar.parser import Verbs, switch
from launch.screen.notes import note
from launch.screen.render import Column, counted
from launch.session import Session

if TYPE_CHECKING:
    from bastion.service.repair.inventory import Inspection, Odd


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "doctor",
        doctor,
        prints=True,
        text="Checks every pool with your own credentials: its settings, whether its provider"
        " answers and lets you list, create and delete machines, and which machines are not needed."
        " For local pools, reports silent agents. Without --fix, only reads. A leading bastion"
        " deletes orphans on its own. Exits with 1 if it finds anything.",
        example="bastion doctor\nbastion doctor --fix --yes",
    )
    switch(parser, "--fix", "delete the machines that are not needed, after asking")
    switch(parser, "--yes", "with --fix: do not ask")


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
    session.note_silence()
    orphans = [odd for odd in found.odd if odd.kind == "orphan"]
    failed = 0
    is_sure = args.fix and bool(orphans) and (args.yes or agrees(orphans))
    if args.fix and orphans and not is_sure:
        note(f"nothing was changed; to delete {_orphans(orphans)}: bastion doctor --fix --yes")
    for odd, why in admin.delete_orphans(found) if is_sure else ():
        note(f"{odd.machine}: {why or 'is being deleted'}")
        failed += bool(why)
    return exits.FAILED if found.odd or failed else exits.OK


_OWN_PRICES = "the prices in config/bastion.toml"
_LIST_PRICES = "list prices (dollars, on demand), because config/bastion.toml has none"


def agrees(orphans: list[Odd]) -> bool:
    """Whether the user confirms on a terminal that the orphans are to be deleted."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"delete {_orphans(orphans)}, {', '.join(o.machine for o in orphans)}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _orphans(orphans: list[Odd]) -> str:
    return counted(len(orphans), "orphan")


def _tell(found: Inspection) -> None:
    for pool, count in found.listed.items():
        note(
            f"pool {pool}: its provider answers, and has {counted(count, 'machine')} of bucket"
            f" {found.bucket}"
        )
    for pool in found.unlisted:
        note(f"pool {pool}: is not listed; its machines are on the bastion's own host")
    for pool, why in found.unchecked.items():
        note(f"pool {pool}: cannot tell whether you may create and delete machines: {why}")
    priced = [odd for odd in found.odd if odd.kind != "absent" and odd.price_per_hour]
    if priced:
        from bastion.spec.values.quantity import text_of_cost

        cost = text_of_cost(sum(odd.price_per_hour for odd in priced))
        kinds = {odd.is_list_price for odd in priced}
        sources = (_OWN_PRICES,) * (False in kinds) + (_LIST_PRICES,) * (True in kinds)
        note(f"machines that are not needed cost {cost} per hour, by {' and '.join(sources)}")


def _cost(odd: Odd) -> str:
    from bastion.spec.values.quantity import text_of_cost

    return text_of_cost(odd.price_per_hour) if odd.price_per_hour else ""
