"""Bundles: code in the bucket, named by its digest."""

from __future__ import annotations

import argparse

from launch import exits
from launch.errors import note
from launch.parser import Verbs
from launch.progress import bar
from launch.session import Session


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "bundle",
        send,
        "send code to the bucket and print its digest",
        prints=True,
        example="bastion bundle\nbastion bundle src/",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default="",
        metavar="FOLDER",
        help="its top; found upward from here by default",
    )


def send(args: argparse.Namespace) -> int:
    """`bastion bundle [FOLDER]`."""
    from bastion.spec import text_of_bytes
    from bundler.code import LocalDir

    session = Session(args)
    with bar(shown=not session.is_quiet, is_bytes=True) as draw:
        sent = session.client.send_code(
            LocalDir(args.folder), report=lambda now: draw(now.step, now.done, now.total)
        )
    digest = getattr(sent.ref, "digest", "")
    if session.out.format == "json":
        session.out.json(
            {
                "digest": digest,
                "size_bytes": sent.size_bytes,
                "sent_bytes": sent.sent_bytes,
                "warnings": list(sent.warnings),
            }
        )
        return exits.OK
    print(digest)
    for warning in sent.warnings:
        note(f"warning: {warning}")
    note(f"{text_of_bytes(sent.size_bytes)} of code, {text_of_bytes(sent.sent_bytes)} sent")
    return exits.OK
