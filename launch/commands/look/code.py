"""The code of a job and the origin of its launch: `show --code` and `show --checkout`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launch import exits
from launch.screen.job_spec import code_field
from launch.screen.notes import note
from launch.screen.render import counted, plain, write_lines
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client.code.stored_code import CodeView
    from bastion.records.requests.origin import Origin, WorkingTree


def show_code(session: Session) -> int:
    """`bastion show JOB --code --checkout=FOLDER`."""
    args = session.args
    told: dict[str, object] = {}
    if args.checkout:
        folder = session.client.checkout(args.job, args.checkout, project=args.project_id)
        note(f"the code of {args.job} is in {folder}")
        told["checkout"] = str(folder)
    if args.code:
        view = session.client.code(args.job, project=args.project_id)
        told["code"] = plain(view)
        if session.out.format != "json":
            session.out.fields(_fields(view))
            write_lines(_texts(view.origin))
    if session.out.format == "json":
        session.out.json(told)
    return exits.OK


def _fields(view: CodeView) -> Iterator[tuple[str, str]]:
    yield "launch", view.launch
    yield "rerun of", view.again_of
    yield "user", view.user
    yield code_field(view.code)
    if view.origin is None:
        yield "origin", "not stored, or deleted"
        return
    yield "submitted by", shlex.join(view.origin.argv)
    if view.origin.tree is not None:
        yield from _tree(view.origin.tree)


def _tree(tree: WorkingTree) -> Iterator[tuple[str, str]]:
    branch = f" on branch {tree.branch}" if tree.branch else ""
    yield "commit", f"{tree.commit or 'none yet'}{branch}"
    yield "repository", tree.url
    changed = f"{counted(len(tree.changed), 'file')} changed, {len(tree.untracked)} untracked"
    yield "dirty", changed if tree.is_dirty else "no, exactly this commit"
    yield "changed", " ".join(tree.changed)
    yield "untracked", " ".join(tree.untracked)
    yield "left out", " ".join(tree.left_out)


def _texts(origin: Origin | None) -> Iterator[str]:
    if origin is None:
        return
    for file in origin.files:
        yield f"\n--- {file.name}{' (truncated)' if file.is_cut else ''}"
        yield file.text.rstrip("\n")
    if origin.tree is not None and origin.tree.diff:
        yield f"\n--- difference from the commit{' (truncated)' if origin.tree.diff_is_cut else ''}"
        yield origin.tree.diff.rstrip("\n")
