"""The bucket itself: whether it is whole, and how it is brought back after a disaster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from launch import exits
from launch.errors import note
from launch.parser import Verbs
from launch.render import Column
from launch.session import Session

if TYPE_CHECKING:
    from bastion.service.fsck import Finding


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    verbs.add(
        "fsck",
        check,
        "hold the bucket to every rule of the protocol",
        prints=True,
        text="It only reads, also while a bastion leads; what it finds it looks for a second time"
        " before it tells. Exit code 1 when anything is wrong.",
        example="bastion fsck\nbastion fsck --json",
    )


def check(args: argparse.Namespace) -> int:
    """`bastion fsck`."""
    from bastion.clock import SystemClock
    from bastion.service.fsck import RULES, audit
    from bastion.store import open_store

    session = Session(args)
    found = audit(open_store(session.profile.root), SystemClock())
    columns: list[Column[Finding]] = [
        Column(title="RULE", text=lambda finding: finding.rule),
        Column(title="WHERE", text=lambda finding: finding.key),
        Column(title="WHAT", text=lambda finding: finding.text),
    ]
    if found or session.is_quiet:
        session.out.show("findings", found, columns, name=lambda finding: finding.key)
    for rule in dict.fromkeys(finding.rule for finding in found):
        note(f"{rule}: {RULES[rule][0]}")
    if not found:
        note(f"{session.profile.root} is whole: {len(RULES)} rules hold")
    return exits.FAILED if found else exits.OK
