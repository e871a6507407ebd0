"""The quota file: show check diff apply edit."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs
from launch.screen.notes import note
from launch.screen.outlook import outlook_lines
from launch.screen.render import amounts
from launch.session import Session

if TYPE_CHECKING:
    from quota.tree import Quota

ACTIONS = ("show", "check", "diff", "apply", "edit")


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "quota",
        quota,
        "show, check, compare or change the quota file",
        prints=True,
        text="show: what is in the bucket, in whole units. check FILE: every problem of a file."
        " diff FILE: what it would change. apply FILE: put it in force. edit: in your $EDITOR,"
        " then apply.",
        example="bastion quota show\nbastion quota diff new.toml\nbastion quota apply new.toml",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="a quota file (TOML)")


def quota(args: argparse.Namespace) -> int:
    """`bastion quota ACTION [FILE]`."""
    if args.action in ("check", "diff", "apply") and not args.file:
        raise UsageError(f"quota {args.action}: which file?", hint=f"quota {args.action} new.toml")
    actions = {"show": _show, "check": _check, "diff": _diff, "apply": _apply, "edit": _edit}
    return actions[args.action](Session(args))


def _show(session: Session) -> int:
    text = session.client.quota_text()
    if session.out.format == "wide":
        print(text, end="")
        return exits.OK
    from bastion.client.look.quota_file import parsed_quota
    from launch.screen.quota_rows import quota_columns, quota_rows

    found = parsed_quota(text)
    rows = quota_rows(found)
    windows = [str(window) for window in found.maintenance]
    session.out.show(
        "projects",
        rows,
        quota_columns(rows),
        name=lambda row: row.name,
        more={"maintenance": windows} if windows else None,
    )
    if not session.is_quiet:
        for window in windows:
            note(f"maintenance closes {window}")
        note(f"{amounts(found.totals)} in all; -o wide prints the file itself")
    return exits.OK


def _check(session: Session) -> int:
    found = _parsed(session.args.file)
    note(f"{session.args.file} is good: {len(found.projects)} projects, {amounts(found.totals)}")
    return exits.OK


def _diff(session: Session) -> int:
    from bastion.client.look.quota_file import parsed_quota
    from bastion.errors import NotFoundError
    from quota.change import compare

    text = _read(session.args.file)
    change = compare(session.client.quota(), parsed_quota(text))
    for each in (*change.shares, *change.members, *change.options):
        print(each)
    if not change:
        note("nothing would change")
        return exits.OK
    try:
        foreseen = session.client.what_if_quota(text).outlook
    except NotFoundError:
        return exits.OK
    for line in outlook_lines(foreseen, session.out.now):
        note(line)
    return exits.OK


def _apply(session: Session) -> int:
    session.client.apply_quota(_read(session.args.file))
    note(f"{session.args.file} is in the bucket; the bastion takes it on its next turn")
    return exits.OK


def _edit(session: Session) -> int:
    import subprocess
    import tempfile

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    text = session.client.quota_text()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "project-quotas.toml"
        path.write_text(text)
        subprocess.run([*editor.split(), str(path)], check=True)
        changed = path.read_text()
    if changed == text:
        note("nothing was changed")
        return exits.OK
    session.client.apply_quota(changed)
    note("the bastion takes it on its next turn")
    return exits.OK


def _parsed(file: str) -> Quota:
    from bastion.client.look.quota_file import parsed_quota

    return parsed_quota(_read(file))


def _read(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
