"""The page: `bastion web`."""

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
        text="Pages read the bucket and change nothing; they need no bastion. Programs of this"
        " machine alone reach them, unless --host says otherwise: then with --token_file, or behind"
        " a proxy that names the user in --user_header. /metrics is for Prometheus.",
        example="bastion web --open\n"
        "bastion web --host=0.0.0.0 --token_file=web.token\n"
        "bastion web --user_header=X-Forwarded-User",
    )
    text(parser, "--host", "the address to listen on; 127.0.0.1 by default", metavar="ADDRESS")
    number(parser, "--port", "0: any that is free", default=8420)
    text(
        parser,
        "--token_file",
        "a file with the token that is asked for; made where it is missing",
        metavar="FILE",
    )
    text(parser, "--user_header", "in which a proxy names the user it let in", metavar="NAME")
    several(parser, "--proxy", "address of that proxy; loopback by default", metavar="ADDRESS")
    switch(parser, "--open", "open it in a browser")


def web(args: argparse.Namespace) -> int:
    """`bastion web`."""
    root = Session(args).profile.root
    try:
        from bastion.web.serve import serve
        from bastion.web.settings import LOOPBACK_PROXIES, WebSettings
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed, which pages need", hint=INSTALL) from None
    settings: WebSettings = WebSettings(
        root_url=root,
        host=args.host or "127.0.0.1",
        port=args.port,
        token=_token(Path(args.token_file)) if args.token_file else "",
        user_header=args.user_header,
        proxies=tuple(args.proxy) or LOOPBACK_PROXIES,
    )

    def opened(address: str) -> None:
        note(f"the page is {address}; Ctrl-C ends it")
        if args.open:
            import webbrowser

            webbrowser.open(address)

    return serve(settings, opened=opened)


def _token(path: Path) -> str:
    """The token in the file at `path`; a new one, readable by its owner alone, if there is none."""
    import os
    import secrets

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = path.read_text().strip()
        if len(token) < TOKEN_BYTES // 2 or not token.isascii() or not token.isprintable():
            raise UsageError(
                f"{path}: holds no token; one line of {TOKEN_BYTES // 2} or more plain characters",
                hint=f"rm {path}, and a new one is made",
            ) from None
        return token
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{token}\n")
    return token
