"""
The entry point of the services.

`python -m bastion serve ...` is `bastion serve` without the command line. `python -m bastion agent
...` runs on every machine. `bastion.service.run.compose`, `bastion.agent.main`, `open_store` and
`open_provider` decide which adapters they use.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bastion.errors import BastionError
from bastion.system import require_linux

if TYPE_CHECKING:
    from bastion.service.config.settings import ServeSettings


NICE = 10
"""Niceness of a compaction, so that the bastion's turns and local jobs come first."""


def serve(
    *,
    root: str,
    name: str = "",
    quota: str = "",
    standby: bool = False,
    moved: bool = False,
    machines_dir: Path | None = None,
    once: bool = False,
    log_level: Literal["debug", "info", "warning"] = "info",
    log_as_json: bool = False,
    metrics_port: int | None = None,
    metrics_host: str = "",
) -> int:
    """
    Run one bastion on `root` until SIGTERM or SIGINT, and return the exit code.

    A signal ends it within `stopping.STOP_S` seconds; a second signal ends it immediately.

    Args:
        root: URL of the root folder.
        name: Name of this bastion; the host's name by default. Only one bastion with a given name
            can run on a host.
        quota: Path or URL of a quota file outside of the root.
        standby: Wait for the lead without a time limit, and wait again after losing it.
        moved: The bucket has moved here from another address, and its machines have ended.
        machines_dir: Folder for machines of `local` pools.
        once: Run one turn, then stop.
        log_level: Log lines below this level are left out.
        log_as_json: Write the log as one JSON object per line.
        metrics_port: Port for Prometheus metrics; None: no metrics.
        metrics_host: Address for the metrics; loopback by default.

    Raises:
        BastionError: It cannot run; the message says why.
    """
    require_linux("a bastion")
    from bastion.service.config.settings import ServeSettings, pace_of

    settings = ServeSettings(
        root_url=root,
        name=name or socket.gethostname(),
        # Absolute: agents start in their own folders.
        machines_dir=(machines_dir or default_machines_dir(root)).absolute(),
        quota_url=quota,
        standby=standby,
        moved=moved,
        pace=pace_of(root),
        log_level=log_level,
        log_as_json=log_as_json,
        metrics_port=metrics_port,
        metrics_host=metrics_host or "127.0.0.1",
    )
    from bastion.clock import SystemClock
    from bastion.own_memory import hide_memory
    from bastion.service.run.compose import compose
    from bastion.service.run.stopping import Stopping

    hide_memory()
    with _noted(settings), Stopping(SystemClock()) as stopping:
        service = compose(
            settings,
            is_stopping=stopping.is_asked,
            is_over=stopping.is_over,
            nonce=lambda: secrets.token_hex(8),
        )
        return service.once() if once else service.run()


def _noted(settings: ServeSettings) -> AbstractContextManager[None]:
    """Record which process serves a folder, so that it can be stopped even without its bucket."""
    from bastion.provider.serving import noted
    from bastion.service.config.settings import LOCAL

    if settings.pace != LOCAL:
        return nullcontext()
    return noted(settings.machines_dir, settings.name, settings.root_url)


def default_machines_dir(root: str) -> Path:
    """Return the default folder for machines of `local` pools, outside of the bucket."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "bastion" / sha256(root.encode()).hexdigest()[:12] / "machines"


def compact(root: str) -> int:
    """Compact the history of the bucket at `root`, and print what was done as one JSON object."""
    import json

    from bastion.history.compaction import compact as compact_record
    from bastion.own_memory import hide_memory
    from bastion.records.coding.codec import plain
    from bastion.store import open_store

    hide_memory()
    os.nice(NICE)
    sys.stdout.write(f"{json.dumps({'spoilt': {}, **plain(compact_record(open_store(root)))})}\n")
    return 0


def agent(arguments: list[str]) -> int:
    """
    Run the agent of a machine with the `arguments` of its command line; return its exit code.

    Raises:
        BastionError: This is not Linux.
    """
    require_linux("an agent")
    from bastion.agent.main import main as run

    return run(arguments)


def main(arguments: list[str]) -> int:
    """Dispatch `python -m bastion VERB ...`, and return the exit code."""
    try:
        if arguments[:1] == ["agent"]:
            return agent(arguments[1:])
        if arguments[:1] in (["serve"], ["compact"]) and len(arguments) == 2:
            return serve(root=arguments[1]) if arguments[0] == "serve" else compact(arguments[1])
    except BastionError as error:
        sys.stderr.write(f"{error}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return 1
    sys.stderr.write("usage: python -m bastion agent FLAGS | serve ROOT | compact ROOT\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
