"""
Simulated machines: what a machine keeps, its keeper, and the provider.

A machine that dies takes agent, keeper and home with it. An agent that dies takes nothing. A keeper
that dies may leave its processes as strays, which the next keeper life ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from bastion.agent.cloud.metadata import Metadata
from bastion.agent.home import FolderHome, Folders, Home, Marks, Word
from bastion.agent.keeper.fake import FakeHome, FakeKeeper, Reaction, Script, error_of
from bastion.agent.keeper.port import (
    Answers,
    AttemptStart,
    AttemptState,
    KeeperEvent,
    KeeperGoneError,
    ProcessStart,
)
from bastion.agent.settings import Cloud
from bastion.errors import NoCapacityError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.provider.port import Listed, State
from bastion.records.root import Root
from tests.simulation.baton import Baton, SimClock
from tests.simulation.fates import LIVE, Fate, Fates
from tests.simulation.port import Port

_T = TypeVar("_T")

BOOT_S = (2.0, 20.0)
DELETE_S = (0.5, 15.0)
STOCKOUT = 0.05
"""Fraction of creates that find the provider without machines."""
HICCUP = 0.03
"""Fraction of lists that omit a machine, unless two in a row would then be believed."""


class SimHome:
    """The folders of an agent, without files: two numbers that it must remember."""

    cache = Path("/nowhere")

    def __init__(self, port: Port, disk: FakeHome) -> None:
        self._port = port
        self._disk = disk
        self._numbers: dict[str, tuple[int, int]] = {}

    def check(self) -> None:
        """See `Home`."""

    def number(self, name: str, life: int) -> int:
        """See `Home`."""
        of_life, number = self._numbers.get(name, (0, 0))
        return number if of_life == life else 0

    def put_number(self, name: str, life: int, number: int) -> bool:
        """See `Home`."""

        def work() -> bool:
            if not self._disk.full:
                self._numbers[name] = life, number
            return not self._disk.full

        return self._port.call("home", name, work)

    def folders(self, key: str) -> Folders:
        """See `Home`."""
        return self.named(key)

    def named(self, key: str) -> Folders:
        """See `Home`."""
        return Folders(
            code="/code",
            output="/nowhere",
            marks="/marks",
            notice_file="/notice.json",
            secrets="/secrets",
            python="/python",
        )

    def marks(self, key: str) -> Marks:
        """See `Home`."""
        return Marks()

    def word(self, key: str) -> Word:
        """See `Home`."""
        return Word()

    def unwell(self) -> str:
        """See `Home`: limits that only a start reveals, such as processes, are not detected."""
        return self._disk.full

    def take_back(self, key: str) -> None:
        """See `Home`."""

    def has_output(self, key: str) -> bool:
        """See `Home`."""
        return False

    def forget_secrets(self, key: str) -> None:
        """See `Home`."""

    def leave(self, key: str, *, is_saved: bool) -> None:
        """See `Home`."""

    def clean(self, *, ended: float, needed: float, taken: float, spared: frozenset[str]) -> None:
        """See `Home`."""


class CalmHome(FolderHome):
    """A real home, on a disk that always seems to have room."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, has_little_room=lambda _: False)

    def unwell(self) -> str:
        """See `Home`."""
        return ""


def script_of(process: ProcessStart) -> Script:
    """
    Return what a simulated process does: `sim <seconds> [<code>...]`, nth code in its nth attempt.

    The last code is for all later attempts. `deaf` in place of `sim` ignores notices; a code `none`
    is a program that does not exist. An unknown command ends with 2.
    """
    try:
        return _understood(process)
    except ValueError:
        return Script(output=((0.0, b"usage\n"),), runs_s=0.0, code=2)


def _understood(process: ProcessStart) -> Script:
    kind, seconds, *codes = process.argv
    attempt = int(process.env["BASTION_ATTEMPT"])
    code = codes[min(attempt, len(codes)) - 1] if codes else "0"
    runs_s = float(seconds)
    return Script(
        output=((0.0, b"begun\n"), (runs_s / 2, b"half\n" * 3), (runs_s, b"done\n")),
        runs_s=runs_s,
        code=0 if code == "none" else int(code),
        setup_failure="no such program" if code == "none" else "",
        on_notice=None if kind == "deaf" else Reaction(after_s=1.0, code=0, signal=None),
    )


class SimKeeper:
    """A fake keeper for which every call is a step."""

    def __init__(self, machine: SimMachine, keeper: FakeKeeper, port: Port, fates: Fates) -> None:
        self.life = keeper.life
        self._machine = machine
        self._keeper = keeper
        self._port = port
        self._fates = fates

    def start(self, attempt: AttemptStart) -> None:
        """See `Keeper.start`."""

        def work() -> None:
            self._keeper.start(attempt)
            self._machine.started(attempt)

        self._call("keeper start", attempt.key, work)

    def start_all(self, attempts: Sequence[AttemptStart]) -> Answers:
        """See `Keeper.start_all`."""
        return tuple(error_of(partial(self.start, each)) for each in attempts)

    def stop(self, key: str, *, reason: str, by: str, grace_s: float) -> None:
        """See `Keeper.stop`."""

        def work() -> None:
            self._keeper.stop(key, reason=reason, by=by, grace_s=grace_s)

        self._call("keeper stop", f"{key} ({reason})", work)

    def limit(self, key: str, *, max_runtime_s: float) -> None:
        """See `Keeper.limit`."""

        def work() -> None:
            self._keeper.limit(key, max_runtime_s=max_runtime_s)

        self._call("keeper limit", key, work)

    def permit(self, *, valid_for_s: float, sent_at: float) -> None:
        """See `Keeper.permit`."""
        self._keeper.permit(valid_for_s=valid_for_s, sent_at=sent_at)

    def see_permit(self) -> None:
        """Let the keeper end what its permit no longer covers."""
        with suppress(KeeperGoneError):
            self._keeper.attempts()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended on its own."""
        try:
            self._keeper.attempts()
        except KeeperGoneError:
            return True
        return False

    def attempts(self) -> tuple[AttemptState, ...]:
        """See `Keeper.attempts`."""
        return self._call("keeper attempts", "", self._keeper.attempts)

    def forget(self, key: str) -> None:
        """See `Keeper.forget`."""
        self._call("keeper forget", key, lambda: self._keeper.forget(key))

    def forget_all(self, keys: Sequence[str]) -> Answers:
        """See `Keeper.forget_all`."""
        return tuple(error_of(partial(self.forget, key)) for key in keys)

    def poll(self, timeout_s: float) -> tuple[KeeperEvent, ...]:
        """See `Keeper.poll`; its sleep passes the baton on."""
        return self._keeper.poll(timeout_s)

    def read(self, key: str, process: int, *, offset: int, size_bytes: int) -> bytes:
        """See `Spool.read`."""
        return self._keeper.read(key, process, offset=offset, size_bytes=size_bytes)

    def _call(self, operation: str, key: str, work: Callable[[], _T]) -> _T:
        fate = self._fates.draw(f"keeper@{self._machine.name}", LIVE, key)
        if fate in (Fate.CRASH_BEFORE, Fate.CRASH_AFTER):
            self._machine.note("keeper dies")
            self._keeper.crash(leaves_strays=fate is Fate.CRASH_BEFORE)
            self._machine.keeper = None
        return self._port.call(operation, key, work)


class SimMachine:
    """
    One machine, from its create until it is permanently gone.

    Args:
        on_start: Called with the machine and what its keeper has just started.
    """

    def __init__(
        self,
        name: str,
        pool: str,
        *,
        baton: Baton,
        fates: Fates,
        on_start: Callable[[SimMachine, AttemptStart], None],
        clock: type[SimClock],
        zone: str = "",
        permit_s: float = 0.0,
    ) -> None:
        self.name = name
        self.pool = pool
        self.zone = zone
        self.permit_s = permit_s
        self.slice = ""
        self.cloud: Cloud = ""
        self.metadata: Metadata | None = None
        self.heartbeat_s = 30.0 if permit_s else 0.0
        self.is_forsaken = False
        """Whether nothing restarts its agent."""
        self.state: State = "creating"
        self.clock = clock(baton, skew_s=baton.chance.uniform(-100.0, 100.0))
        self.home = FakeHome()
        self.folders: Home = SimHome(Port(baton, fates, OSError), self.home)
        self.keeper: SimKeeper | None = None
        self.hidden_over = -1
        """The number of the commit at which a list last omitted it."""
        self._baton = baton
        self._fates = fates
        self._on_start = on_start

    @property
    def actor(self) -> str:
        """The name of its agent among the actors."""
        return f"agent@{self.name}"

    def is_dead(self) -> bool:
        """Whether nothing on it runs or ever will."""
        return self.state == "gone"

    def living(self) -> tuple[str, ...]:
        """Return keys of attempts with a living process."""
        if self.is_dead():
            return ()
        if self.keeper is not None and self.permit_s:
            self.keeper.see_permit()  # it ends its processes on its own, whether or not it is asked
        return self.home.living(self.clock.monotonic())

    def connect(self) -> SimKeeper:
        """Return the living keeper."""
        if self.keeper is None or self.keeper.is_gone:
            raise KeeperGoneError("no keeper lives here")
        return self.keeper

    def spawn(self, life: int) -> SimKeeper:
        """Start a keeper life; the processes of older lives are then dead."""
        fake = FakeKeeper(self.home, self.clock, script_of, life=life, permit_s=self.permit_s)
        port = Port(self._baton, self._fates, KeeperGoneError)
        self.keeper = SimKeeper(self, fake, port, self._fates)
        return self.keeper

    def started(self, attempt: AttemptStart) -> None:
        """Record that the keeper has started `attempt`."""
        self._on_start(self, attempt)

    def note(self, what: str) -> None:
        """Add what happened to this machine to the trace."""
        self._baton.note(what, self.name)

    def die(self) -> None:
        """Lose the machine with everything on it."""
        self.note("machine gone")
        self.state = "gone"
        self.keeper = None
        self._baton.kill(self.actor)


class SimProvider:
    """
    The source of simulated machines, which outlives every leader.

    Args:
        capacity: The maximum number of machines at a time.
        boot: Starts the agent of a machine that has booted.
        on_delete: Called with the name of every machine whose deletion is requested.
        root: The committed state; according to it, no machine is omitted from two lists in a row.
    """

    def __init__(
        self,
        baton: Baton,
        fates: Fates,
        *,
        capacity: int,
        boot: Callable[[SimMachine], None],
        on_start: Callable[[SimMachine, AttemptStart], None],
        on_delete: Callable[[str], None],
        root: Callable[[], Root | None],
        clock: type[SimClock] = SimClock,
    ) -> None:
        self._clock = clock
        self.machines: dict[str, SimMachine] = {}
        self.is_calm = False
        self.cut: set[str] = set()
        """Zones that do not answer now."""
        self.furnish: Callable[[SimMachine], Home] | None = None
        """Gives a machine its home; None: one without files."""
        self._baton = baton
        self._fates = fates
        self._port = Port(baton, fates, ProviderUnavailableError)
        self._capacity = capacity
        self._boot = boot
        self._on_start = on_start
        self._on_delete = on_delete
        self._root = root

    def list(self) -> tuple[Listed, ...]:
        """See `Provider`; now and then a machine dies, or is omitted once."""
        return self._port.call("list machines", "", self._list)

    @property
    def vouches(self) -> bool:
        """See `Provider`."""
        return True

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See `Provider`."""
        for machine in machines:
            self._port.call(
                "create machine",
                machine.name,
                lambda machine=machine: self._create(machine, pool),  # type: ignore[misc]
                writes=True,
            )

    def delete(self, name: str) -> None:
        """See `Provider`."""
        self._port.call("delete machine", name, lambda: self._delete(name), writes=True)

    @property
    def standing(self) -> Mapping[str, SimMachine]:
        """Return machines that are not gone."""
        return {name: each for name, each in self.machines.items() if not each.is_dead()}

    def _list(self) -> tuple[Listed, ...]:
        shown = []
        for machine in list(self.machines.values()):
            fate = self._fates.draw(f"machine@{machine.name}", LIVE, machine.name)
            if fate in (Fate.CRASH_BEFORE, Fate.CRASH_AFTER) and not machine.is_dead():
                machine.die()
            if not self._is_hidden(machine) and machine.zone not in self.cut:
                shown.append(Listed(name=machine.name, pool=machine.pool, state=machine.state))
        return tuple(shown)

    def _is_hidden(self, machine: SimMachine) -> bool:
        """
        Whether a list omits `machine`.

        Two consecutive lists that agree are believed, so they must not both be wrong: nothing is
        omitted while an omission is in the records, or while one may be on its way there.
        """
        root = self._root()
        if self.is_calm or root is None or machine.hidden_over == root.seq:
            return False
        known = root.machines.get(machine.name)
        if (known is not None and known.missing) or self._baton.chance.random() >= HICCUP:
            return False
        machine.hidden_over = root.seq
        return True

    def _create(self, machine: Machine, pool: Pool) -> None:
        self._check_reach(machine.zone)
        known = self.machines.get(machine.name)
        if known is not None:
            if known.state == "stopped":
                known.state = "running"
                self._baton.wake(known.actor)
            return
        chance = self._baton.chance
        taken = sum(each.zone == machine.zone for each in self.standing.values())
        is_full = pool.machines_per_zone and taken >= pool.machines_per_zone
        if (
            is_full
            or len(self.standing) >= self._capacity
            or (not self.is_calm and chance.random() < STOCKOUT)
        ):
            raise NoCapacityError(f"pool {pool.name} has no machine now")
        made = SimMachine(
            machine.name,
            pool.name,
            baton=self._baton,
            fates=self._fates,
            on_start=self._on_start,
            clock=self._clock,
            zone=machine.zone,
            permit_s=pool.permit_s,
        )
        if self.furnish is not None:
            made.folders = self.furnish(made)
        self.machines[machine.name] = made
        self._baton.later(chance.uniform(*BOOT_S), lambda: self._booted(made))

    def _check_reach(self, zone: str) -> None:
        if zone in self.cut:
            raise ProviderUnavailableError(f"host {zone} does not answer")

    def _booted(self, machine: SimMachine) -> None:
        if machine.state == "creating":
            machine.state = "running"
            self._boot(machine)

    def _delete(self, name: str) -> None:
        machine = self.machines.get(name)
        self._check_reach(machine.zone if machine is not None else "")
        self._on_delete(name)
        if machine is None or machine.state in ("deleting", "gone"):
            return
        machine.state = "deleting"
        self._baton.later(self._baton.chance.uniform(*DELETE_S), machine.die)
