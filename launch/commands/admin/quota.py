"""The quota file: show, check, diff, apply, edit."""

from __future__ import annotations

import argparse
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bastion.client.submit.outlook import outlook_lines
from launch import exits
from launch.errors import UsageError, named
from launch.grammar.parser import Verbs, switch
from launch.grammar.parser import text as flag
from launch.screen.notes import note
from launch.screen.render import amounts, counted, write_lines
from launch.session import Session

if TYPE_CHECKING:
    from quota.tree import Quota

ACTIONS = ("show", "check", "diff", "apply", "edit")


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "quota",
        quota,
        prints=True,
        text="show: print the bucket's quotas in whole units. check FILE: report every problem in a"
        " file. diff FILE: show what it would change. apply FILE: put it in force. edit: edit the"
        " file in $EDITOR, then apply it.",
        example="bastion quota show\nbastion quota diff new.toml\nbastion quota apply new.toml",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="a quota file (TOML)")
    flag(
        parser,
        "--replay",
        "diff: replay this last period of the record under both files, such as 30d or 12h",
        metavar="TIME",
    )
    switch(
        parser, "--exit_code", f"diff: exit with {exits.CHANGES} if the file would change anything"
    )


def quota(args: argparse.Namespace) -> int:
    """`bastion quota ACTION [FILE]`."""
    if args.replay and args.action != "diff":
        raise UsageError(f"quota {args.action}: only diff takes --replay")
    if args.exit_code and (args.action != "diff" or args.replay):
        other = "diff --replay" if args.action == "diff" else args.action
        raise UsageError(
            f"quota {other}: only quota diff FILE takes --exit_code",
            hint="bastion quota diff new.toml --exit_code",
        )
    if args.action in ("check", "diff", "apply") and not args.file:
        raise UsageError(
            f"quota {args.action}: no file given", hint=f"bastion quota {args.action} new.toml"
        )
    if args.action in ("show", "edit") and args.file:
        other = "diff" if args.action == "show" else "apply"
        raise UsageError(
            f"quota {args.action}: takes no file, because it is about the one in the bucket",
            hint=f"bastion quota {other} {shlex.quote(args.file)}",
        )
    actions = {"show": _show, "check": _check, "diff": _diff, "apply": _apply, "edit": _edit}
    return actions[args.action](Session(args))


def _show(session: Session) -> int:
    text = session.client.quota_text()
    if session.out.format == "wide":
        print(text, end="")
        return exits.OK
    from bastion.client.change.quota_file import parsed_quota
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
        note(f"{amounts(found.totals)} in total; -o wide prints the file itself")
    session.note_absence()
    return exits.OK


def _check(session: Session) -> int:
    from bastion.errors import SpecError

    file = session.args.file
    try:
        found = _parsed(file)
    except SpecError as error:
        if session.out.format != "json":
            raise
        session.out.json({"file": file, "problems": error.problems, "projects": []})
        return exits.USAGE
    if session.out.format == "json":
        session.out.json({"file": file, "problems": [], "projects": sorted(found.projects)})
        return exits.OK
    note(f"{file} is valid: {counted(len(found.projects), 'project')}, {amounts(found.totals)}")
    return exits.OK


def _diff(session: Session) -> int:
    from bastion.client.change.quota_file import checked_quota
    from bastion.errors import NotFoundError
    from quota.change import compare

    file = session.args.file
    text = read_quota_file(file)
    new = checked_quota(text, source=file)
    if session.args.replay:
        from launch.commands.admin.replay import replayed, show_difference

        _, found = replayed(session, session.args.replay, {file: new})
        if found is None:
            raise UsageError("interrupted before both files were replayed")
        show_difference(session, found)
        return exits.OK
    change = compare(_in_force(session), new)
    lines = [*change.shares, *change.members, *change.options]
    foreseen: list[str] = []
    if change:
        with suppress(NotFoundError):
            outlook = session.client.what_if_quota(text).outlook
            foreseen = outlook_lines(outlook, session.out.now)
    code = exits.CHANGES if session.args.exit_code and change else exits.OK
    if session.out.format == "json":
        session.out.json(
            {"file": file, "changes": [str(each) for each in lines], "outlook": foreseen}
        )
        return code
    write_lines(str(each) for each in lines)
    for line in foreseen if change else ["nothing would change"]:
        note(line)
    _note_unknown(session, new)
    return code


def _note_unknown(session: Session, found: Quota) -> None:
    """Note what has no effect in this bucket, if a bastion has published its pools."""
    from bastion.errors import NotFoundError

    if found.maintenance:
        with suppress(NotFoundError):
            for line in session.client.quota_notes(found):
                note(line)


def _in_force(session: Session) -> Quota:
    """Return the bucket's file, or the last valid one if that file is invalid."""
    from bastion.errors import SpecError

    try:
        return session.client.quota()
    except SpecError as error:
        last_good = session.client.quota_in_force()
        if last_good is None:
            raise
        note(f"the bucket's file is not in force: {error}; compared with the last valid one")
        return last_good


def _apply(session: Session) -> int:
    file = session.args.file
    found = _parsed(file)
    session.client.apply_quota(read_quota_file(file))
    if session.out.format == "json":
        session.out.json({"file": file, "projects": sorted(found.projects)})
    note(f"{session.args.file} is in the bucket; the bastion applies it on its next turn")
    _note_unknown(session, found)
    session.note_absence()
    return exits.OK


def _edit(session: Session) -> int:
    import shutil
    import tempfile

    text = session.client.quota_text()
    folder = Path(tempfile.mkdtemp(prefix="bastion-quota-"))
    file = folder / "project-quotas.toml"
    is_kept = False
    try:
        with named(file):
            file.write_text(text, encoding="utf-8")
        note(_edited(session, str(file), text))
    except BaseException as error:
        is_kept = file.exists() and file.read_bytes() != text.encode()
        if is_kept:
            _name_edit(error, f"{session.root_flag} {shlex.quote(str(file))}")
        raise
    finally:
        if not is_kept:
            shutil.rmtree(folder)
    return exits.OK


def _edited(session: Session, file: str, text: str) -> str:
    """Open an editor on `file` with `text`, apply the result, and return the note to print."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    _run_editor([*shlex.split(editor), file])
    changed = read_quota_file(file)
    if changed == text or Path(file).read_bytes() == text.encode():
        return "nothing was changed"
    _parsed(file)
    session.client.apply_quota(changed, replacing=text)
    return "the bastion applies it on its next turn"


def _name_edit(error: BaseException, words: str) -> None:
    """Add to an error or interrupt that the edit is kept, and how to apply it with `words`."""
    from bastion.errors import BastionError, ConflictError

    kept = f"your edit is kept; to apply it: bastion quota apply{words}"
    if isinstance(error, ConflictError):
        error.hint = (
            f"your edit is kept; to see what it would change or undo: bastion quota diff{words};"
            f" to apply it: bastion quota apply{words}"
        )
    elif isinstance(error, BastionError | UsageError):
        error.hint = f"{error.hint}; {kept}" if error.hint else kept
    else:
        error.add_note(kept)


def _run_editor(words: list[str]) -> None:
    import subprocess

    try:
        code = subprocess.run(words, check=False).returncode
    except OSError as error:
        raise UsageError(
            f"{words[0]}: {error.strerror}", hint="set EDITOR or VISUAL to your editor"
        ) from None
    if code:
        raise UsageError(f"{words[0]} exited with code {code}; nothing was changed")


def _parsed(file: str) -> Quota:
    from bastion.client.change.quota_file import checked_quota

    return checked_quota(read_quota_file(file), source=file)


def read_quota_file(file: str) -> str:
    """
    Return the text of a quota file.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return Path(file).read_bytes().decode("utf-8-sig")  # as a bastion reads it
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file}: byte {error.start} is not UTF-8", hint="save the file as UTF-8"
        ) from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
