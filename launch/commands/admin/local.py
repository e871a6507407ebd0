"""A bastion on this machine, with its machines: begun as one, and ended as one."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from launch import exits
from launch.commands.here.removed_bucket import (
    ENDING_S,
    end_what_served,
    refuse_in_place_of_another,
    until,
)
from launch.commands.look.status import files_not_in_force
from launch.errors import UsageError
from launch.grammar.parser import Verbs, switch, text
from launch.screen.notes import note
from launch.screen.render import counted
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import StatusView
    from bastion.provider.local import LocalProvider

_WAIT_S = 20.0
"""How long a bastion on a folder may take to lead, or to give up the lead."""


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    up = verbs.add(
        "up",
        begin,
        text="In the background, on a folder. A new folder gets a pool of one machine and a quota"
        " file of one project that everyone belongs to; change both as you like.",
        example="bastion up --root=bucket --resources=h100=8,cpu=16\nbastion up",
    )
    text(
        up, "--resources", "of a new folder's machine; by default its processors", metavar="TYPE=N"
    )
    text(up, "--machines_dir", "where its machines live", metavar="FOLDER")
    down = verbs.add(
        "down",
        end,
        text="Jobs that run are stopped, and start again after the next up. With jobs that run it"
        " asks for --yes.",
        example="bastion down",
    )
    text(down, "--machines_dir", "where its machines live", metavar="FOLDER")
    switch(down, "--yes", "also while jobs run")


def begin(args: argparse.Namespace) -> int:
    """`bastion up`."""
    session = Session(args)
    root = session.profile.root
    folder = _folder(root)
    machines = _machines_dir(args, session)
    if not _has_bucket(folder):
        refuse_in_place_of_another(root, machines, is_own=not args.machines_dir)
    if not any(
        any(place.iterdir())
        for name in ("config", "project-quotas")
        if (place := folder / name).is_dir()
    ):
        _furnish(folder, args.resources)
        note(
            f"{folder} is a new bucket: config/bastion.toml and project-quotas/ are yours to change"
        )
    elif args.resources:
        raise UsageError(
            f"--resources: {folder} has its pools already",
            hint=f"change {folder}/config/bastion.toml",
        )
    if _leads(session):
        note(f"a bastion leads {root} already")
        return exits.OK
    log = machines.parent / "bastion.log"
    machines.mkdir(parents=True, exist_ok=True)
    words = ["serve", f"--root={root}", f"--machines_dir={machines}"]
    with log.open("ab") as out:
        size_bytes = out.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "launch.start", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    _until(session, lambda: _leads(session) or process.poll() is not None, _WAIT_S)
    if not _leads(session):
        lines = log.read_bytes()[size_bytes:].decode(errors="replace").splitlines()
        last = [line for line in lines if line.startswith("error: ")][-1:] or lines[-1:]
        note(f"the bastion did not start: {' '.join(last) or 'it says nothing'}; {log} has more")
        return exits.FAILED
    _until(session, lambda: _knows_machines(session, machines), _WAIT_S)
    note(f"a bastion leads {root}, process {process.pid}; its log is {log}")
    if (status := _status(session)) is not None:
        for problem in files_not_in_force(status):
            note(f"problem: {problem}")
    _tell_next(root)
    return exits.OK


def end(args: argparse.Namespace) -> int:
    """`bastion down`."""
    session = Session(args)
    root = session.profile.root
    if not _has_bucket(_folder(root)):
        place = _machines_dir(args, session)
        return end_what_served(
            root, place, session.client.clock, is_own=not args.machines_dir, is_sure=args.yes
        )
    status = _status(session)
    running = sum(status.counts.get(state, 0) for state in ("running", "starting")) if status else 0
    if running and not args.yes:
        raise UsageError(
            f"{counted(running, 'job')} would be stopped, and start again after the next up",
            hint="bastion list --state=running shows them; bastion down --yes ends them",
        )
    if status is not None and _leads(session):
        _stop(session, status)
    ended = _end_machines(session, _machines_dir(args, session))
    note(f"the bastion of {root} has ended, with {counted(ended, 'machine')}; its bucket stays")
    return exits.OK


def _folder(root: str) -> Path:
    parts = urlsplit(root)
    if parts.scheme != "file":
        raise UsageError(
            f"{root} is not a folder",
            hint="up and down are for a bucket in a folder of this machine",
        )
    return Path(unquote(parts.path))


def _has_bucket(folder: Path) -> bool:
    from bastion.records import layout

    return (folder / layout.ROOT).exists()


def _machines_dir(args: argparse.Namespace, session: Session) -> Path:
    """Where machines live: as asked, else where the last bastion of this host kept them."""
    import socket

    from bastion.__main__ import default_machines_dir

    if args.machines_dir:
        return Path(args.machines_dir).absolute()
    root = session.profile.root
    status = _status(session) if _has_bucket(_folder(root)) else None
    if status is None or status.machines_host != socket.gethostname():
        return default_machines_dir(root)
    # Another home, or another XDG_STATE_HOME, has another default.
    told = Path(status.machines_dir)
    return told if told.is_dir() else default_machines_dir(root)


def _furnish(folder: Path, resources: str) -> None:
    """Write the two files that an admin writes."""
    from bastion.records import layout

    has = resources or f"cpu={os.cpu_count() or 1}"
    pairs = [part.partition("=") for part in has.split(",")]
    if not all(name and number.isdecimal() for name, _, number in pairs):
        raise UsageError(f"--resources: {resources!r} is not TYPE=N,..., as h100=8,cpu=16")
    units = {name.strip().lower(): int(number) for name, _, number in pairs}
    devices = {name: n for name, n in units.items() if name not in ("cpu", "memory")} or units
    files = {
        layout.CONFIG: "# Where machines come from: bastion help config-file\n"
        '[pools.here]\nprovider = "local"\n'
        f"resources = {{ {', '.join(f'{name} = {n}' for name, n in units.items())} }}\ncount = 1\n",
        layout.QUOTA: "# Who may hold how much: bastion help quota-file\n"
        '[toml-schema]\nversion = "1"\n\n[total_resources]\n'
        + "".join(f"{name} = {n}\n" for name, n in devices.items())
        + '\n[project_membership]\ndefault = [".*"]\n\n[project_resources.default]\n'
        + "".join(f"{name} = 1.0\n" for name in devices),
    }
    for key, content in files.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def _status(session: Session) -> StatusView | None:
    from bastion.errors import NotFoundError

    try:
        return session.client.status()
    except NotFoundError:
        return None


def _leads(session: Session) -> bool:
    """Whether a process leads that lives, by its own status."""
    status = _status(session)
    if status is None or status.is_given_up or not status.pid:
        return False
    return _lives(status.pid)


def _lives(pid: int) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        is_ours = any("serve" in word for word in process.cmdline())
        return is_ours and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _stop(session: Session, status: StatusView) -> None:
    """Ask the bastion to give up the lead and exit, and wait until it has."""
    import socket

    if status.host != socket.gethostname():
        raise UsageError(
            f"the bastion runs on {status.host}", hint=f"bastion down, on {status.host}"
        )
    os.kill(status.pid, signal.SIGTERM)
    if not _until(session, lambda: not _lives(status.pid), _WAIT_S):
        raise UsageError(
            f"the bastion, process {status.pid}, has not ended within {_WAIT_S:g} s",
            hint=f"bastion down, once more; kill -9 {status.pid} harms nothing",
        )


def _end_machines(session: Session, folder: Path) -> int:
    """End every local machine below `folder`; how many there were."""
    providers = _providers(session.profile.root, folder)
    left = [(provider, name) for provider in providers for name in _standing(provider)]
    for provider, name in left:
        provider.delete(name)
    if not _until(session, lambda: not any(map(_standing, providers)), ENDING_S):
        raise UsageError(f"machines in {folder} do not stop", hint="bastion down, once more")
    return len(left)


def _knows_machines(session: Session, folder: Path) -> bool:
    """
    Whether the bastion takes no machine for ready that `down` has ended.

    It learns that from its first listing. A job that is launched before would lose an attempt.
    """
    pools = session.client.pool()
    local = {pool["name"] for pool in pools.pools if pool.get("provider") == "local"}
    ready = {each.name for each in pools.machines if each.phase == "ready" and each.pool in local}
    providers = _providers(session.profile.root, folder)
    return ready <= {name for provider in providers for name in _standing(provider)}


def _providers(root: str, folder: Path) -> list[LocalProvider]:
    """Return a provider for each pool that has machines below `folder`."""
    from bastion.clock import SystemClock
    from bastion.provider.local import LocalProvider

    place = folder / _bucket_of(_folder(root))
    pools = sorted({path.parents[1] for path in place.glob("*/*/machine")})
    return [LocalProvider(root, pool, SystemClock()) for pool in pools]


def _bucket_of(folder: Path) -> str:
    """The folder of this bucket's machines, beside those of others; empty for an older bucket."""
    import json

    from bastion.bucket_name import is_from_url
    from bastion.records import layout

    try:
        bucket = str(json.loads((folder / layout.ROOT).read_bytes()).get("bucket", ""))
    except FileNotFoundError:
        return ""
    return "" if not bucket or is_from_url(bucket) else bucket


def _standing(provider: LocalProvider) -> list[str]:
    return [machine.name for machine in provider.list() if machine.state != "gone"]


def _until(session: Session, is_true: Callable[[], bool], limit_s: float) -> bool:
    return until(session.client.clock, is_true, limit_s)


def _tell_next(root: str) -> None:
    from bastion.profile import surrounding

    at = "" if surrounding().root == root else f" --root={root}"
    for words, meaning in (
        (f"run{at} -- echo hello", "run a command as a job"),
        (f"status{at}", "the leader, the queue, problems"),
        (f"down{at}", "end it all; the bucket stays"),
    ):
        note(f"  bastion {words:<36} # {meaning}")
