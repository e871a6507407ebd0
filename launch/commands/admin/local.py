"""A bastion and its machines on this host: started together and stopped together."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from tempfile import TemporaryFile
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from bastion.system import require_linux
from launch import exits
from launch.commands.here.local_bastion import LocalBastion
from launch.commands.here.local_jobs import jobs_on
from launch.commands.here.local_machines import LocalMachines
from launch.commands.here.removed_bucket import (
    end_what_served,
    refuse_in_place_of_another,
    stop,
    until,
)
from launch.errors import UsageError, explained
from launch.grammar.parser import Verbs, switch, text
from launch.screen.notes import note, tell
from launch.screen.render import counted
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import StatusView

_WAIT_S = 20.0
"""How long a bastion on a folder can take to lead, or to give up the lead."""
_PASSING_S = 3.0
"""How long it can take to lead after a first problem, which may be temporary."""
_TYPE = r"[a-z0-9_]+"
"""A resource type that needs no quotes in either file."""


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    up = verbs.add(
        "up",
        begin,
        text="Runs in the background, with a folder as the bucket. A new folder gets a pool of one"
        " machine, and a quota file with one project for everyone. Change both as you like.",
        example="bastion up --root=bucket --resources=h100=8,cpu=16\nbastion up",
    )
    text(
        up,
        "--resources",
        "resources of the machine of a new folder (default: this host's CPUs)",
        metavar="TYPE=N",
    )
    text(up, "--machines_dir", "folder for its machines", metavar="FOLDER")
    down = verbs.add(
        "down",
        end,
        text="Stops running jobs, which start again after the next bastion up. While jobs run, it"
        " needs --yes. Exits with 103 if there is no bucket and nothing to stop.",
        example="bastion down",
    )
    text(down, "--machines_dir", "folder of its machines", metavar="FOLDER")
    switch(down, "--yes", "stop running jobs too")


def begin(args: argparse.Namespace) -> int:
    """`bastion up`."""
    require_linux("a bastion with its machines")
    session = Session(args)
    root = session.profile.root
    folder = _folder(root)
    is_own = not args.machines_dir
    units = _units(args.resources)
    _refuse_file("--root", folder)
    place = _machines_dir(args, session)
    _refuse_file("--machines_dir", place)
    if not _has_bucket(folder):
        refuse_in_place_of_another(root, place, is_own=is_own)
    is_new = not _has_files(folder)
    if args.resources and not is_new:
        _refuse_other_machines(folder, units)
    _refuse_led_elsewhere(_status(session) if _has_bucket(folder) else None)
    for flag, at in (("--root", folder), ("--machines_dir", place)):
        _make_writable(flag, at)
    if is_new:
        _furnish(folder, units)
        note(f"{folder} is a new bucket; change config/bastion.toml and project-quotas/ as needed")
    if _leads(session):
        note(f"a bastion already leads {root}")
        return exits.OK
    return _start(session, place, is_own=is_own)


def _start(session: Session, place: Path, *, is_own: bool) -> int:
    """Start a bastion and wait until it leads; stop it and its new machines if it does not."""
    root, clock = session.profile.root, session.client.clock
    machines = LocalMachines(root, place, clock, is_own=is_own)
    before = machines.standing()
    bastion = LocalBastion(root, place, _log_of(root, place, is_own=is_own), clock)
    try:
        return _await(session, bastion, machines, before)
    except KeyboardInterrupt as interrupt:
        where = "" if is_own else f" --machines_dir={quote(str(place))}"
        interrupt.add_note(
            f"the bastion that it started, process {bastion.pid}, continues;"
            f" to stop it once it leads: bastion down{session.root_flag}{where}"
        )
        raise


def _await(
    session: Session, bastion: LocalBastion, machines: LocalMachines, before: frozenset[Path]
) -> int:
    root, clock = session.profile.root, session.client.clock

    def is_settled() -> bool:
        return _leads(session) or bastion.has_ended

    until(clock, lambda: is_settled() or bastion.trouble() is not None, _WAIT_S)
    until(clock, is_settled, _PASSING_S)
    if not _leads(session):
        return _take_back(bastion, machines, before)
    until(clock, lambda: _knows_machines(session, machines), _WAIT_S)
    note(f"a bastion leads {root}, process {bastion.pid}; its log is {bastion.log}")
    if trouble := bastion.trouble():
        note(f"problem: {'; '.join(filter(None, trouble))}")
    if (status := _status(session)) is not None:
        for problem in status.refused_files:
            note(f"problem: {problem}")
    _tell_next(session.root_flag)
    return exits.OK


def _take_back(bastion: LocalBastion, machines: LocalMachines, before: frozenset[Path]) -> int:
    """Stop a bastion that does not lead and the machines that it created, and say why."""
    complaint, hint = bastion.complaint()
    problem = "the bastion did not start"
    if not bastion.has_ended:
        bastion.end()
        problem = "the bastion did not lead and was stopped"
    made = machines.standing() - before
    if made:
        machines.end(made)
        problem += f" with {counted(len(made), 'machine')}"
    more = f"details are in {bastion.log}"
    tell(
        f"{problem}: {complaint or 'its log gives no reason'}", f"{hint}; {more}" if hint else more
    )
    return exits.FAILED


def end(args: argparse.Namespace) -> int:
    """`bastion down`."""
    session = Session(args)
    root = session.profile.root
    if not _has_bucket(_folder(root)):
        place = _machines_dir(args, session)
        return end_what_served(
            root, place, session.client.clock, is_own=not args.machines_dir, is_sure=args.yes
        )
    from bastion.provider.serving import bastions_of

    status = _status(session)
    _refuse_led_elsewhere(status)
    place = _machines_dir(args, session)
    machines = LocalMachines(root, place, session.client.clock, is_own=not args.machines_dir)
    running = len(jobs_on(machines.standing(), session.client.store))
    if running and not args.yes:
        starts = "starts" if running == 1 else "start"
        raise UsageError(
            f"{counted(running, 'job')} would be stopped, and {starts} again after bastion up",
            hint="to see them: bastion list; to stop them: bastion down --yes",
        )
    if status is not None and _leads(session):
        _stop(session, status)
    else:  # a bastion that was just started does not lead yet
        stop(bastions_of(place, root), session.client.clock)
    ended = machines.standing()
    running = len(jobs_on(ended, session.client.store))
    machines.end(ended)
    with_machines = counted(len(ended), "machine")
    note(f"stopped the bastion of {root} and {with_machines}; its bucket remains")
    if running:
        again = "starts again" if running == 1 else "start again"
        note(f"{counted(running, 'stopped job')} {again} after: bastion up --root={root}")
    return exits.OK


def _folder(root: str) -> Path:
    parts = urlsplit(root)
    if parts.scheme != "file":
        raise UsageError(
            f"{root} is not a folder",
            hint="up and down need a bucket in a folder of this machine",
        )
    return Path(unquote(parts.path))


def _refuse_file(flag: str, folder: Path) -> None:
    """
    Refuse a path that is not a folder and cannot become one.

    Raises:
        UsageError: It is a file, or has a parent that is a file.
    """
    found = next(path for path in (folder, *folder.parents) if path.exists())
    if not found.is_dir():
        raise UsageError(
            f"{flag}: {found} is a file, not a folder",
            hint=f"set {flag} to a new or existing folder",
        )


def _make_writable(flag: str, folder: Path) -> None:
    """
    Create a folder if it is missing.

    Raises:
        BastionError: It cannot be created or written to.
    """
    from bastion.errors import BastionError
    from bastion.provider.serving import keep_from_code

    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            file.write(b"probe")
        if is_new and flag == "--machines_dir":
            keep_from_code(folder)
    except OSError as error:
        if is_new and folder.exists():
            folder.rmdir()
        _, hint = explained(error)
        raise BastionError(
            f"{flag}: cannot write to {folder}: {error.strerror}",
            hint=hint or f"set {flag} to another folder",
        ) from None


def _has_files(folder: Path) -> bool:
    """Whether an admin has written any file into the bucket."""
    places = (folder / name for name in ("config", "project-quotas"))
    return any(place.is_dir() and any(place.iterdir()) for place in places)


def _log_of(root: str, place: Path, *, is_own: bool) -> Path:
    """Return the log file of the bastion, which no other bucket's bastion uses."""
    from hashlib import sha256

    if is_own:
        return place.parent / "bastion.log"
    return place / f"{sha256(root.encode()).hexdigest()[:12]}.log"


def _has_bucket(folder: Path) -> bool:
    from bastion.records.keys import layout

    return (folder / layout.ROOT).exists()


def _machines_dir(args: argparse.Namespace, session: Session) -> Path:
    """
    Return the folder of machines: the given one, or the one of the last bastion of this host.

    Raises:
        UsageError: Machines of this bucket run in a folder other than the given one.
    """
    from bastion.__main__ import default_machines_dir

    root = session.profile.root
    status = _status(session) if _has_bucket(_folder(root)) else None
    known = None
    if status is not None and status.machines_host == socket.gethostname():
        # The default depends on the home folder and XDG_STATE_HOME.
        known = Path(status.machines_dir)
    if args.machines_dir:
        asked = Path(args.machines_dir).resolve()
        _refuse_other_folder(root, asked, known)
        return asked
    return known if known is not None and known.is_dir() else default_machines_dir(root)


def _refuse_other_folder(root: str, asked: Path, known: Path | None) -> None:
    """
    Refuse a new folder while machines of this bucket run in the folder `known`.

    Raises:
        UsageError: A machine runs there, and would be left behind.
    """
    from bastion.provider.serving import is_standing, machines_of

    if known is None or asked.resolve() == known.resolve():
        return
    left = [folder for folder in machines_of(known, root, is_own=False) if is_standing(folder)]
    if left:
        runs = "runs" if len(left) == 1 else "run"
        raise UsageError(
            f"--machines_dir: {counted(len(left), 'machine')} of this bucket {runs} in {known}",
            hint="omit --machines_dir to use that folder",
        )


def _units(resources: str) -> Mapping[str, int]:
    """
    Return the resources of a new folder's machine, by type.

    Raises:
        UsageError: It is not written as `h100=8,cpu=16`, a type is given twice or is not a name,
            an amount is 0 or too large, or a quota file cannot share any of the types.
    """
    if not resources:
        return {"cpu": os.cpu_count() or 1}
    from bastion.errors import SpecError
    from bastion.spec.resources import Resources
    from launch.submission.flags import resources_of
    from quota.file.config import MOST_UNITS

    written = resources_of(resources.split(","))
    if empty := next((name for name, n in written.items() if n == 0), ""):
        raise UsageError(
            f"--resources: {empty}=0 is not allowed; must be 1 or more", hint=f"omit {empty}"
        )
    try:
        amounts = Resources(**written).amounts
    except SpecError as error:
        told = (each.removeprefix("resources.") for each in error.problems)
        raise UsageError(f"--resources: {'; '.join(told)}") from None
    units = {name: amounts[name] for name in written}
    for name in units:
        if not re.fullmatch(_TYPE, name):
            raise UsageError(
                f"--resources: {name!r} is not a type; allowed are a-z, 0-9 and _, as in a100_80gb"
            )
    shared = _shared(units)
    if many := next((name for name, n in shared.items() if n > MOST_UNITS), ""):
        raise UsageError(
            f"--resources: {many}={units[many]} is not allowed; must be at most {MOST_UNITS}"
        )
    if not shared:
        raise UsageError(
            "--resources: memory alone cannot be shared",
            hint="add a device type or cpu, as in --resources=cpu=16,memory=64GiB",
        )
    return units


def _shared(units: Mapping[str, int]) -> Mapping[str, int]:
    """Return what the quota file of a new folder shares: devices, or CPUs if there are none."""
    devices = {name: n for name, n in units.items() if name not in ("cpu", "memory")}
    return devices or {name: n for name, n in units.items() if name == "cpu"}


def _refuse_other_machines(folder: Path, units: Mapping[str, int]) -> None:
    """
    Accept `units` only if a pool of the folder has them: the same command was repeated.

    Raises:
        UsageError: No pool has them.
    """
    import tomllib

    from bastion.records.keys import layout

    path = folder / layout.CONFIG
    try:
        pools = tomllib.loads(path.read_text(encoding="utf-8")).get("pools", {})
        has = {name: pool["resources"] for name, pool in pools.items() if "resources" in pool}
    except (OSError, ValueError, AttributeError, TypeError):
        has = {}  # the bastion reports the problems of the file
    if dict(units) in has.values():
        return
    shown = "; ".join(
        f"{name} has {','.join(f'{each}={n}' for each, n in machine.items())}"
        for name, machine in has.items()
    )
    raise UsageError(
        f"--resources: {folder} already has pools{shown and f': {shown}'}",
        hint=f"omit --resources, or change {path}",
    )


def _furnish(folder: Path, units: Mapping[str, int]) -> None:
    """Write the two files of an admin: both or neither."""
    from bastion.records.keys import layout

    shared = _shared(units)
    files = {
        layout.CONFIG: "# Pools of machines: bastion help config-file\n"
        '[pools.here]\nprovider = "local"\n'
        f"resources = {{ {', '.join(f'{name} = {n}' for name, n in units.items())} }}\ncount = 1\n",
        layout.QUOTA: "# Shares of projects: bastion help quota-file\n"
        '[toml-schema]\nversion = "1"\n\n[total_resources]\n'
        + "".join(f"{name} = {n}\n" for name, n in shared.items())
        + '\n[project_membership]\ndefault = [".*"]\n\n[project_resources.default]\n'
        + "".join(f"{name} = 1.0\n" for name in shared),
    }
    try:
        for key, content in files.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    except OSError:
        for key in files:
            (folder / key).unlink(missing_ok=True)
        raise


def _status(session: Session) -> StatusView | None:
    from bastion.errors import NotFoundError

    try:
        return session.client.status()
    except NotFoundError:
        return None


def _leads(session: Session) -> bool:
    """Whether a process of this host leads and lives, by its own status."""
    status = _status(session)
    if status is None or status.is_given_up or not status.pid:
        return False
    return status.host == socket.gethostname() and _lives(status.pid)


def _refuse_led_elsewhere(status: StatusView | None) -> None:
    """
    Refuse to act while a bastion on another host leads.

    Raises:
        UsageError: One leads.
    """
    if status is None or status.absence or status.host == socket.gethostname():
        return
    raise UsageError(
        f"the bastion {status.leader} leads on {status.host}; this host is {socket.gethostname()}",
        hint=f"run bastion down on {status.host}; if it no longer runs, try again in 10s",
    )


def _lives(pid: int) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        is_ours = any("serve" in word for word in process.cmdline())
        return is_ours and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _stop(session: Session, status: StatusView) -> None:
    """Tell the bastion to give up the lead and exit, and wait until it has."""
    os.kill(status.pid, signal.SIGTERM)
    if not until(session.client.clock, lambda: not _lives(status.pid), _WAIT_S):
        raise UsageError(
            f"the bastion, process {status.pid}, did not stop within {_WAIT_S:g} s",
            hint=f"run bastion down again; kill -9 {status.pid} is safe too",
        )


def _knows_machines(session: Session, machines: LocalMachines) -> bool:
    """
    Whether the bastion shows no machine as ready that `down` has ended.

    It learns this from its first listing. A job launched earlier would lose an attempt.
    """
    pools = session.client.pool()
    local = {pool["name"] for pool in pools.pools if pool.get("provider") == "local"}
    ready = {each.name for each in pools.machines if each.phase == "ready" and each.pool in local}
    return ready <= {folder.name for folder in machines.standing()}


def _tell_next(at: str) -> None:
    commands = {
        f"run{at} -- echo hello": "run a command as a job",
        f"status{at}": "show the leader, the queue and problems",
        f"down{at}": "stop everything; the bucket remains",
    }
    width = max(map(len, commands))
    for words, meaning in commands.items():
        note(f"  bastion {words:<{width}}  # {meaning}")
