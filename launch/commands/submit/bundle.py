"""Upload code: a bundle in the bucket, a resolved commit, or an image in a registry."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs, text
from launch.screen.notes import note
from launch.screen.progress import bar
from launch.session import Session
from launch.submission.code import add_bundler_flags, bundler_code

if TYPE_CHECKING:
    from bastion.spec import Code

_IMAGES = ("docker", "artifactregistry")
_WITHOUT_NAME = ("", "local", "git", "image")


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "bundle",
        send,
        prints=True,
        text="For a Git repository, prints the commit. For an image, builds and pushes it, then"
        " prints its name and digest.",
        example="""\
bastion bundle src/
bastion bundle --bundler_type=git --bundler_spec=url=git@github.com:acme/train.git
bastion bundle --name=v2 --bundler_type=docker --bundler_spec=image=eu.pkg.dev/acme/train""",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default="",
        metavar="FOLDER",
        help="top folder of the code (default: found upward from the current folder)",
    )
    add_bundler_flags(parser)
    text(parser, "--name", "tag of the image that is built", metavar="TAG")


def send(args: argparse.Namespace) -> int:
    """`bastion bundle [FOLDER]`."""
    from bastion.spec import text_of_bytes

    session, code = Session(args), _asked(args)
    with bar(shown=not session.is_quiet, is_bytes=args.bundler_type not in _IMAGES) as draw:
        sent = session.client.send_code(
            code, report=lambda now: draw(now.step, now.done, now.total)
        )
    if session.out.format == "json":
        session.out.json(
            {
                "kind": sent.ref.kind,
                "digest": sent.name,
                "size_bytes": sent.size_bytes,
                "sent_bytes": sent.sent_bytes,
                "warnings": list(sent.warnings),
            }
        )
        return exits.OK
    print(sent.name, flush=True)  # before the notes about it
    if sent.size_bytes:
        note(f"{text_of_bytes(sent.size_bytes)} of code, {text_of_bytes(sent.sent_bytes)} sent")
    return exits.OK


def _asked(args: argparse.Namespace) -> Code:
    is_local = args.bundler_type in ("", "local")
    if args.folder and not is_local:
        raise UsageError(
            f"bundle: a folder is code of the type local, not {args.bundler_type}",
            hint=f"bastion bundle {args.folder}",
        )
    if args.name and args.bundler_type in _WITHOUT_NAME:
        raise UsageError("--name: only an image has a name; other code is named by its digest")
    more = [("root", args.folder), ("tag", args.name)]
    return bundler_code(args, *(shlex.quote(f"{key}={word}") for key, word in more if word))
