"""Verbs about the bucket: audit and restore."""

from __future__ import annotations

import argparse
from math import inf
from typing import TYPE_CHECKING

from launch import exits
from launch.grammar.parser import Verbs, switch, text
from launch.screen.notes import note
from launch.screen.render import Column
from launch.session import Session

if TYPE_CHECKING:
    from bastion.service.repair.fsck import Finding
    from bastion.service.repair.restore import Copy, Restore


SINCE = "7d"
"""The highest age of an instruction that an agent obeys, or of a request in transit."""
ALL = "all"


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    parser = verbs.add(
        "fsck",
        check,
        prints=True,
        text="Only reads, and can run while a bastion leads. Each finding is checked twice. Reads"
        " only the most recent ended jobs; --since sets how far back. Exits with 1 if anything is"
        " wrong.",
        example="bastion fsck\nbastion fsck --since=all --json",
    )
    text(parser, "--since", "how far back to read ended jobs, or all (default: 7d)", metavar="TIME")
    parser.set_defaults(since=SINCE)
    parser = verbs.add(
        "restore",
        restore,
        prints=True,
        text="Without --yes, shows the hourly copies and what restoring one would change, and"
        " changes nothing. Refuses while a bastion leads. Keeps the root that it replaces.",
        example="bastion restore\n"
        "bastion restore --snapshot=state/snap/2026-11-21/000000004711.json --yes",
    )
    text(parser, "--snapshot", "copy to restore (default: the newest)", metavar="KEY")
    switch(parser, "--yes", "restore the copy")


def check(args: argparse.Namespace) -> int:
    """`bastion fsck`."""
    from bastion.admin import Admin
    from bastion.service.repair.fsck import RULES

    session = Session(args)
    root = session.profile.root
    found = Admin(root).fsck(since_s=_since_s(args.since))
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
        reach = (
            ""
            if args.since == ALL
            else f"; jobs that ended more than {args.since} ago were not read"
        )
        note(f"{root} is intact: all {len(RULES)} rules hold{reach}")
    return exits.FAILED if found else exits.OK


def _since_s(text: str) -> float:
    """Return the seconds in `--since`."""
    from bastion.spec import seconds_of

    return inf if text == ALL else seconds_of("--since", text)


def restore(args: argparse.Namespace) -> int:
    """`bastion restore`."""
    from bastion.admin import Admin

    session = Session(args)
    found = Admin(session.profile.root).restoring(args.snapshot)
    if not args.yes:
        _show_copies(session, found)
        return exits.OK
    if found.patience_s:
        note(f"checking for {found.patience_s:g} s whether a bastion leads")
    root = found.commit()
    _tell(found)
    note(f"{found.copy.key} was restored as commit {root.seq}: start the bastion")
    if found.restored.held:
        note(f"when those have ended: bastion release {' '.join(found.restored.held)}")
    return exits.OK


def _show_copies(session: Session, found: Restore) -> None:
    out = session.out
    columns: list[Column[Copy]] = [
        Column(title="SNAPSHOT", text=lambda copy: copy.key),
        Column(title="COMMIT", text=lambda copy: str(copy.seq)),
        Column(title="WRITTEN", text=lambda copy: out.time(copy.written_at)),
        Column(title="BYTES", text=lambda copy: str(copy.size_bytes)),
    ]
    restored = found.restored
    plan = {name: list(getattr(restored, name)) for name, _ in _MEANINGS}
    more = {"snapshot": found.copy.key, "plan": plan}
    out.show("snapshots", found.copies, columns, name=lambda copy: copy.key, more=more)
    if not session.is_quiet:
        _tell(found)
        note(f"nothing was changed; to restore: bastion restore --snapshot={found.copy.key} --yes")


_MEANINGS = (
    ("ended", "have ended since, and stay ended"),
    ("returned", "not active now, and become active again"),
    ("lost", "submitted since and not in the copy; submit them again"),
    ("queued", "submitted since and never started; queued again"),
    ("held", "held, because they began or were cancelled after the copy was made"),
    ("stopped", "running, but not in the copy; told to stop"),
)


def _tell(found: Restore) -> None:
    """Print on stderr what restoring the copy changes."""
    for key, why in found.damaged.items():
        note(f"{key} is damaged and was skipped: {why}")
    if not found.is_root_readable:
        note("root is missing or unreadable, so its contents are known only from other objects")
    note(f"active in {found.copy.key}: {', '.join(found.restored.root.jobs) or 'no job'}")
    for name, meaning in _MEANINGS:
        names = getattr(found.restored, name)
        if names:
            note(f"{meaning}: {', '.join(names)}")
