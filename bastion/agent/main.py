"""
`python -m bastion agent`: the agent as a program.

One agent serves a home at a time; its lock is released with its process. SIGTERM ends it
immediately and leaves keeper and jobs running: the next agent continues.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pwd
import secrets
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, get_args

from bastion.agent.agent import Agent
from bastion.agent.agent_log import say
from bastion.agent.begin.begin import LEFT, NOTHING_BEGUN, Begun, begin, begin_settings
from bastion.agent.begin.foreign import held_devices
from bastion.agent.cloud.metadata import Metadata, MetadataError, metadata_of
from bastion.agent.cloud.orphan import AGAIN_S, end_orphan, is_orphan
from bastion.agent.cloud.tpu import tpu_env, tpu_variables
from bastion.agent.containers.engine import DEFAULT_SOCKET, Engine
from bastion.agent.decommission import ENDING, LOCK, end_home
from bastion.agent.errands import LongLanes
from bastion.agent.home import FolderHome, HomeGoneError
from bastion.agent.keeper.living import living_keeper
from bastion.agent.keeper.port import KEEPER_STOPPED, KeeperError, KeeperGoneError, Running
from bastion.agent.keeper.socket.client import KeeperClient, spawn_keeper
from bastion.agent.keeper_life import begin_life
from bastion.agent.machine.ports import Ports
from bastion.agent.machine.stray_processes import MARK, look
from bastion.agent.settings import FOLDER, AgentSettings, Cloud, tempo_of
from bastion.agent.setup.run_as import open_home, user_of
from bastion.agent.usage.devices import DeviceProbe, device_file, look_once
from bastion.agent.usage.foreign import foreign_processes
from bastion.agent.usage.sampler import MachineSampler
from bastion.clock import SystemClock
from bastion.errors import BastionError, SpecError, StoreError
from bastion.lane import InlineLane, Lane, ThreadLane
from bastion.own_memory import hide_memory
from bastion.provider.machine_folder import NO_KEEPER
from bastion.records.keys import layout
from bastion.secret_rules import SecretRule
from bastion.spec.values.quantity import bytes_of
from bastion.spec.where import CONTAINERS, YES
from bastion.store.open import open_store, open_watch
from bastion.store.port import ObjectStore
from quota.amounts import Amounts

_WORKERS = 6
"""Threads for calls to the store: enough to overlap their latency."""

UPGRADED = 76
"""Exit code of an agent that another build replaces: the start-up script starts that one."""

_LONG_WORKERS = 3
"""Threads for set-ups, and for outputs: more would only share one network."""

_SET_UPS_S = 60.0
"""Longest wait for set-ups that are no longer needed: most end within a second."""

_LOOK_WORKERS = 3
"""Threads for checks of devices, samples of use, and the cloud's notices: one for each."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_KEEPER_S = 600.0
"""Longest wait for a keeper that was told to end: the grace of its jobs."""


def main(argv: Sequence[str]) -> int:
    """
    Run an agent until it is told to leave; return its exit code.

    Args:
        argv: The arguments after `agent`; `end --home DIR` ends one and all its processes.
    """
    if list(argv[:1]) == ["end"]:
        return _end(argv[1:])
    # Ctrl-C in a terminal ends an agent like SIGTERM: immediately.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    hide_memory()
    said = _parser().parse_args(argv)
    home = Path(said.home).absolute()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with _locked(home) as lock:
            folder = FolderHome(home, lock=lock)
            settings = settings_of(said)
            if settings.run_as is not None:
                open_home(home, settings.run_as)
            return _begin(open_store(said.root), settings, home, folder)
    except BastionError as error:
        say(f"the agent ends: {error.in_a_line}")
        return 1


def login(uid: int) -> tuple[str, str]:
    """Return the name and the home of a user: a container may run as a number that has neither."""
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return str(uid), os.environ.get("HOME") or "/"
    return found.pw_name, found.pw_dir


def settings_of(said: argparse.Namespace) -> AgentSettings:
    """
    Return the settings on a command line.

    Raises:
        SpecError: A resource or label is malformed, or jobs cannot run as the named user.
    """
    run_as = user_of(said.run_as) if said.run_as else None
    user, user_home = login(os.getuid() if run_as is None else run_as.uid)
    return AgentSettings(
        machine=said.machine,
        pool=said.pool,
        resources=amounts_of(said.resources),
        labels=dict(_pair("label", label) for label in said.label),
        address=said.address or _own_address(),
        hostname=socket.gethostname(),
        version=_version(),
        build=said.build,
        boot=said.boot,
        begin=said.begin,
        cloud=said.cloud,
        orphan_timeout_s=said.orphan_timeout_s,
        boot_id=_BOOT_ID.read_text().strip(),
        user=user,
        user_home=user_home,
        run_as=run_as,
        root_url=said.root,
        tempo=tempo_of(said.root),
        permit_s=said.permit_s,
        heartbeat_s=said.heartbeat_s,
        keep_work_s=said.keep_work_s,
        secrets_dir=said.secrets_dir,
        secret_sources=tuple(map(_secret_rule, said.secret_source or _listed_sources())),
        home=os.path.realpath(said.home),
        engine_socket=_engine_socket(said.label),
        git_key_file=said.git_key_file,
        git_known_hosts=said.git_known_hosts,
        environ=dict(os.environ),
    )


def _listed_sources() -> list[str]:
    return os.environ.get("BASTION_SECRET_SOURCES", "").split()


def _secret_rule(text: str) -> SecretRule:
    project, source = _pair("secret_source", text)
    return SecretRule(source=source, projects=(project,))


def amounts_of(text: str) -> Amounts:
    """
    Parse resources: `h100=8,cpu=16,memory=64GiB`; empty for none.

    Raises:
        SpecError: It is malformed.
    """
    units = {}
    for part in filter(None, text.split(",")):
        name, number = _pair("resources", part)
        if name == "memory":
            units[name] = bytes_of("resources.memory", number)
        elif number.isdecimal():
            units[name] = int(number)
        else:
            raise SpecError(f"resources.{name}: {number!r} is not a whole number of units")
    return Amounts(units)


def _end(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bastion agent end", allow_abbrev=False)
    parser.add_argument("--home", required=True, help="folder of the agent on this machine")
    parser.add_argument("--patience_s", type=float, default=_KEEPER_S)
    said = parser.parse_args(argv)
    home = Path(said.home).absolute()
    if not home.is_dir():
        say(f"home {home}: there is no such folder, nothing was ended")
        return 1
    if not (home / LOCK).exists():
        inside = f"; write --home={home}/home" if (home / "home" / LOCK).exists() else ""
        say(f"home {home}: no agent ever lived there, nothing was ended{inside}")
        return 1
    try:
        end_home(home, patience_s=said.patience_s)
    except OSError as error:
        say(f"home {home}: it is not known whether everything has ended, try again: {error}")
        return 1
    return 0


def _begin(store: ObjectStore, settings: AgentSettings, home: Path, folder: FolderHome) -> int:
    """Prepare the machine if a start-up script created it, and serve it."""
    clock = SystemClock()
    metadata = metadata_of(settings.cloud, settings.environ)
    if metadata is not None and settings.cloud == "gce":
        with suppress(MetadataError):
            settings = replace(settings, tpu=tpu_variables(tpu_env(metadata)))
    if not (settings.boot or settings.begin):
        return _serve(store, settings, home, folder, metadata, NOTHING_BEGUN)
    declared = dict(settings.resources.items())
    said = begin_settings(Path(settings.boot or settings.begin), declared)
    settings = replace(settings, devices=said.devices, respects_foreign=said.respects_foreign)
    begun = begin(said, settings.machine, store, clock, say)
    if said.respects_foreign:
        devices = look_once(device_file(settings.environ, settings.machine))
        foreign = foreign_processes(devices, f"{settings.home}:")
        begun = replace(begun, foreign=held_devices(foreign, declared))
    code = _serve(store, settings, home, folder, metadata, begun)
    if settings.boot and code != UPGRADED:
        (said.folder / LEFT).touch()
    return code


def _serve(
    store: ObjectStore,
    settings: AgentSettings,
    home: Path,
    folder: FolderHome,
    metadata: Metadata | None,
    begun: Begun,
) -> int:
    clock = SystemClock()
    is_folder = settings.tempo == FOLDER
    sampler = MachineSampler(DeviceProbe(file=device_file(settings.environ, settings.machine)))
    ports = Ports()
    while True:
        lane = ThreadLane("store", workers=_WORKERS)
        # A look into a folder takes less time than a thread's start; a write waits for the disk.
        look_lane: Lane = InlineLane() if is_folder else lane
        long_lanes = LongLanes(
            slow=ThreadLane("work", workers=_LONG_WORKERS),
            looks=ThreadLane("looks", workers=_LOOK_WORKERS),
            other=ThreadLane("output", workers=_LONG_WORKERS),
        )
        keeper = _keeper(store, settings, home, folder, clock, metadata)
        say(f"agent of {settings.machine}, life {keeper.life}, process {os.getpid()}")
        first = layout.instructions(settings.machine, keeper.life, 0)
        watch = open_watch(settings.root_url, layout.folder_of(first), clock)
        keeper.wakes = watch
        agent = None
        try:
            agent = Agent(
                store,
                keeper,
                clock,
                settings,
                lane,
                _nonce,
                home=folder,
                ports=ports.next,
                say=say,
                long_lane=long_lanes,
                engine=Engine(settings.engine_socket) if settings.engine_socket else None,
                metadata=metadata,
                begun=begun,
                watch=watch,
                look_lane=look_lane,
                sampler=sampler,
            )
            agent.run()
        except KeeperGoneError as error:
            say(f"{error}: the agent starts over")
            begun = replace(begun, steps=())
            keeper.close()
            _give_way(agent, lane, long_lanes)
            continue
        except HomeGoneError:
            _kill_all(keeper)
            _end_keeper(keeper, clock)
            raise
        finally:
            watch.close()
        _end_keeper(keeper, clock)
        if agent.is_upgraded:
            say(f"agent of {settings.machine} ends, for one of another build")
            return UPGRADED
        say(f"agent of {settings.machine} has left")
        return 0


def _give_way(agent: Agent | None, lane: ThreadLane, long_lanes: LongLanes) -> None:
    """End the work of `agent`, for the next one prepares the same hosts in the same folders."""
    if agent is not None:
        agent.abandon()
    for each in (lane, long_lanes.slow, long_lanes.looks, long_lanes.other):
        each.close()
    long_lanes.slow.settle(_SET_UPS_S)


def _keeper(
    store: ObjectStore,
    settings: AgentSettings,
    home: Path,
    folder: FolderHome,
    clock: SystemClock,
    metadata: Metadata | None,
) -> KeeperClient:
    pause_s, began_at, end_at = 0.1, clock.monotonic(), 0.0
    is_told = False
    while True:
        folder.check()
        try:
            keeper = begin_life(
                store,
                settings.machine,
                boot_id=settings.boot_id,
                nonce=_nonce,
                connect=lambda: living_keeper(home, has_permit=settings.permit_s > 0),
                spawn=lambda life: spawn_keeper(
                    home,
                    life=life,
                    permit_s=settings.permit_s,
                    mark=settings.environ.get(MARK, ""),
                ),
            )
        except (StoreError, KeeperError) as error:
            if not is_told:
                say(f"{NO_KEEPER}{error}")
                is_told = True
            now = clock.monotonic()
            out_s, timeout_s = now - began_at, settings.orphan_timeout_s
            if metadata and now >= end_at and is_orphan(out_s, timeout_s, is_busy=False):
                end_orphan(settings.cloud, metadata, settings.environ, say)
                end_at = clock.monotonic() + AGAIN_S
            clock.sleep(pause_s)
            pause_s = min(2 * pause_s, settings.tempo.retry_s)
        else:
            assert isinstance(keeper, KeeperClient)
            return keeper


def _kill_all(keeper: KeeperClient) -> None:
    """Kill all attempts immediately, without notice: the machine is being removed."""
    with suppress(KeeperGoneError):
        for state in keeper.attempts():
            if isinstance(state, Running):
                keeper.stop(state.key, reason=KEEPER_STOPPED, by="agent", grace_s=0.0)


def _end_keeper(keeper: KeeperClient, clock: SystemClock) -> None:
    """Tell the keeper to end, and wait until it has."""
    deadline = clock.monotonic() + _KEEPER_S
    keeper.wakes = None
    with suppress(KeeperGoneError):
        keeper.terminate()
        while clock.monotonic() < deadline:
            keeper.poll(1.0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bastion agent", allow_abbrev=False)
    parser.add_argument("--root", required=True, help="URL of the bucket or folder")
    parser.add_argument("--machine", required=True, help="name of this machine in its pool")
    parser.add_argument("--pool", default="", help="pool this machine belongs to")
    parser.add_argument("--home", required=True, help="folder of the agent on this machine")
    parser.add_argument("--resources", default="", help="such as h100=8,cpu=16,memory=64GiB")
    parser.add_argument("--label", action="append", default=[], help="such as shard=rl; repeatable")
    parser.add_argument("--address", default="", help="where other machines reach this one")
    parser.add_argument(
        "--permit_s",
        type=float,
        default=0.0,
        help="seconds jobs can continue without reaching the store; 0: forever",
    )
    parser.add_argument("--heartbeat_s", type=float, default=0.0, help="0: none")
    parser.add_argument("--build", default="", help="digest of the wheel of this program")
    parser.add_argument("--begin", default="", help="folder of what is done before the greeting")
    parser.add_argument("--boot", default="", help="folder of the start-up script, if one ran")
    parser.add_argument(
        "--cloud", default="", choices=get_args(Cloud), help="kind of its metadata server"
    )
    parser.add_argument(
        "--orphan_timeout_s",
        type=float,
        default=0.0,
        help="seconds after which a machine of a cloud that does nothing and reaches no store"
        " deletes itself; 0: never",
    )
    parser.add_argument(
        "--keep_work_s",
        type=float,
        default=AgentSettings(machine="").keep_work_s,
        help="seconds that working directories stay after their attempt",
    )
    parser.add_argument(
        "--run_as", default="", help="user that jobs run as; only where the agent is root's"
    )
    parser.add_argument(
        "--secrets_dir",
        default=os.environ.get("BASTION_SECRETS_DIR", AgentSettings(machine="").secrets_dir),
        help="folder of the secrets that jobs may be given; $BASTION_SECRETS_DIR",
    )
    parser.add_argument(
        "--secret_source",
        action="append",
        default=[],
        metavar="PROJECT=SOURCE",
        help="a source that this machine reads for a project, * for every one; repeatable;"
        " $BASTION_SECRET_SOURCES, with spaces between",
    )
    parser.add_argument(
        "--git_key_file",
        default=os.environ.get("BASTION_GIT_KEY_FILE", ""),
        help="private key for git over ssh; $BASTION_GIT_KEY_FILE",
    )
    parser.add_argument(
        "--git_known_hosts",
        default=os.environ.get("BASTION_GIT_KNOWN_HOSTS", ""),
        help="known_hosts file for git over ssh; $BASTION_GIT_KNOWN_HOSTS",
    )
    return parser


def _pair(field: str, text: str) -> tuple[str, str]:
    name, sign, rest = text.partition("=")
    if not sign or not name:
        raise SpecError(f"{field}: {text!r} is not of the form name=value")
    return name.strip(), rest.strip()


@contextmanager
def _locked(home: Path) -> Iterator[IO[str]]:
    """Hold the home by a lock on this file for as long as the process runs."""
    with (home / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise BastionError(
                f"home {home}: process {holder} is its agent already",
                hint="one agent serves a home; stop that one first",
            ) from None
        if (home / ENDING).exists():
            raise BastionError(
                f"home {home}: this machine has been given back, and no job will run here again"
            )
        file.truncate(0)
        mine = look(os.getpid())
        file.write(f"{os.getpid()} {mine.start if mine else 0}\n")
        file.flush()
        yield file


def _engine_socket(labels: Sequence[str]) -> str:
    """
    Return the engine's socket: `DOCKER_HOST` if it is a socket of this machine; empty without one.

    Raises:
        SpecError: `DOCKER_HOST` names another machine, which cannot mount our folders.
    """
    if f"{CONTAINERS}={YES}" not in labels:
        return ""
    kind, sign, path = os.environ.get("DOCKER_HOST", f"unix://{DEFAULT_SOCKET}").partition("://")
    if not sign or kind != "unix":
        raise SpecError(
            f"DOCKER_HOST: {kind}{sign}{path} is not a socket of this machine",
            hint="containers share folders with the agent: name one as unix:///path",
        )
    return path


def _nonce() -> str:
    return secrets.token_hex(8)


def _own_address() -> str:
    """Return the address of this machine in its network; loopback if it is in none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing: it only queries the routing table.
        # Source: 192.0.2.1 is TEST-NET-1 of RFC 5737.
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("bastion-orchestrator")
    except PackageNotFoundError:
        return "unknown"
