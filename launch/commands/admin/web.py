"""Web pages: `bastion web`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from launch.errors import UsageError
from launch.grammar.parser import Verbs, number, several, switch, text
from launch.screen.notes import note
from launch.session import Session

if TYPE_CHECKING:
    from bastion.web.settings import WebSettings

INSTALL = "pip install 'bastion-orchestrator[web]'"
TOKEN_BYTES = 24


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "web",
        web,
        text="The pages only read the bucket, and need no running bastion. They can be reached only"
        " from this machine unless --host names another address; then use --token_file, or a proxy"
        " that names the user in --user_header. /metrics serves Prometheus metrics.",
        example="bastion web --open\n"
        "bastion web --host=0.0.0.0 --token_file=web.token\n"
        "bastion web --user_header=X-Forwarded-User",
    )
    text(parser, "--host", "address to listen on (default: 127.0.0.1)", metavar="ADDRESS")
    number(parser, "--port", "port to listen on; 0: any free port", default=8420)
    text(
        parser,
        "--token_file",
        "file with the token that users must give; created if it is missing",
        metavar="FILE",
    )
    text(parser, "--user_header", "HTTP header in which a proxy names the user", metavar="NAME")
    several(parser, "--proxy", "address of that proxy (default: loopback)", metavar="ADDRESS")
    switch(parser, "--open", "open the page in a browser")


def web(args: argparse.Namespace) -> int:
    """`bastion web`."""
    root = Session(args).profile.root
    try:
        from bastion.web.serve import serve
        from bastion.web.settings import LOOPBACK_PROXIES, WebSettings
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed, and is needed for web pages", hint=INSTALL
        ) from None
    settings: WebSettings = WebSettings(
        root_url=root,
        host=args.host or "127.0.0.1",
        port=args.port,
        token=_token(Path(args.token_file)) if args.token_file else "",
        user_header=args.user_header,
        proxies=tuple(args.proxy) or LOOPBACK_PROXIES,
    )

    def opened(address: str) -> None:
        note(f"the page is {address}; Ctrl-C stops it")
        if args.open:
            import webbrowser

            webbrowser.open(address)

    return serve(settings, opened=opened)


def _token(path: Path) -> str:
    """Return the token in the file at `path`, created for its owner only if it is missing."""
    import os
    import secrets

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = path.read_text().strip()
        if len(token) < TOKEN_BYTES // 2 or not token.isascii() or not token.isprintable():
            raise UsageError(
                f"{path}: not a token; must be one line of {TOKEN_BYTES // 2} or more printable"
                " ASCII characters",
                hint=f"remove {path} to create a new one",
            ) from None
        return token
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{token}\n")
    return token
