"""The map of devices: every machine and device, the job that holds the device, and its use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil

from bastion.records.reports.usage import ForeignProcess, MachineUse
from bastion.value import value
from bastion.web.drawing.palette import Palette
from bastion.web.reading.board import COUNTED, Board, Row
from bastion.web.reading.live_use import Uses

MOST_MACHINES = 400
"""Machines on the map; the page of machines has all of them, in parts."""
MOST_CELLS = 64
"""Devices of one type that a machine shows individually."""


@value
class Cell:
    """One device."""

    kind: str
    index: int
    job: str = ""
    project: str = ""
    user: str = ""
    color: int = 0
    is_borrowed: bool = False
    is_bad: bool = False
    used: float | None = None
    """0 to 1; None: unknown."""

    @property
    def text(self) -> str:
        """What it is, which job holds it, and how much it is used."""
        used = "" if self.used is None else f", {self.used:.0%} used"
        return f"{self._held}{used}"

    @property
    def height(self) -> int:
        """Its use in tenths, rounded up, so that low use is still visible."""
        return 10 if self.used is None else min(10, ceil(10 * self.used))

    @property
    def _held(self) -> str:
        named = f"{self.kind} {self.index}"
        if self.job:
            borrowed = ", borrowed" if self.is_borrowed else ""
            return f"{named}: {self.job} of {self.user} in {self.project}{borrowed}"
        return f"{named}: out of order" if self.is_bad else f"{named}: idle"


@value
class MachineMap:
    """One machine."""

    name: str
    phase: str
    trouble: str
    """Why it accepts no new job, or empty."""
    cells: tuple[Cell, ...]
    more: int = 0
    """Number of devices that are not shown."""
    foreign: tuple[ForeignProcess, ...] = ()
    """Processes on its devices that were not started by a job of this bastion."""

    @property
    def used(self) -> float | None:
        """The mean use of held devices with known use; None if there are none."""
        return mean_of(cell.used for cell in self.cells if cell.job)


@value
class PoolMap:
    """The machines of one pool."""

    name: str
    machines: tuple[MachineMap, ...]
    devices: int
    used: int
    """Devices that a job holds."""
    mean_use: float | None
    """Mean use of these."""


@value
class Occupancy:
    """All pools."""

    pools: tuple[PoolMap, ...]
    left_out: int
    """Machines that are not on the map."""
    troubled: int
    """Machines that accept no new job, or not on all devices, including those not on the map."""


def mean_of(used: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; None if there are none."""
    known = [each for each in used if each is not None]
    return sum(known) / len(known) if known else None


def occupancy(board: Board, palette: Palette, uses: Uses) -> Occupancy:
    """Return the map of `board`, pool by pool."""
    by_pool: dict[str, list[MachineMap]] = {name: [] for name in sorted(board.pools)}
    for row in board.machines[:MOST_MACHINES]:
        by_pool.setdefault(row.get("pool", ""), []).append(machine_map(board, row, palette, uses))
    pools = tuple(_pool(name, machines) for name, machines in by_pool.items())
    return Occupancy(
        pools=pools,
        left_out=max(0, len(board.machines) - MOST_MACHINES),
        troubled=sum(bool(trouble_of(row)) for row in board.machines),
    )


def machine_map(board: Board, row: Row, palette: Palette, uses: Uses) -> MachineMap:
    """Return the devices of the machine in `row`."""
    use = uses.of(row["name"], board.pool_as_of)
    cells = tuple(_cells(board, row, palette, use))
    kinds = {kind: n for kind, n in (row.get("resources") or {}).items() if kind not in COUNTED}
    more = sum(max(0, number - MOST_CELLS) for number in kinds.values())
    trouble = trouble_of(row)
    phase = row.get("phase", "")
    return MachineMap(
        name=row["name"],
        phase=phase,
        trouble=trouble,
        cells=cells,
        more=more,
        foreign=use.foreign if use is not None else (),
    )


def trouble_of(row: Row) -> str:
    """Return why the machine in `row`, or one of its devices, accepts no new job; or empty."""
    for name in ("cordoned", "unwell", "waits", "stuck"):
        if row.get(name):
            return f"{name}: {row[name]}"
    if row.get("draining"):
        return "draining"
    if row.get("closed"):
        return "closed for maintenance"
    if row.get("phase") == "ready" and row.get("bad_text"):
        return f"devices left alone: {row['bad_text']}"
    return "" if row.get("phase") in ("ready", None) else str(row.get("phase"))


def _pool(name: str, machines: list[MachineMap]) -> PoolMap:
    cells = [cell for machine in machines for cell in machine.cells]
    used = sum(bool(cell.job) for cell in cells)
    return PoolMap(
        name=name,
        machines=tuple(machines),
        devices=len(cells),
        used=used,
        mean_use=mean_of(cell.used for cell in cells if cell.job),
    )


def _cells(board: Board, row: Row, palette: Palette, use: MachineUse | None) -> Iterator[Cell]:
    resources: Mapping[str, int] = row.get("resources") or {}
    kinds = {kind: number for kind, number in resources.items() if kind not in COUNTED}
    bad = {kind: set(indices) for kind, indices in (row.get("bad_devices") or {}).items()}
    holders = _holders(row, kinds)
    used = {each.index: each.used for each in use.devices} if use is not None else {}
    for kind, number in (kinds or {"host": 1}).items():
        for index in range(min(number, MOST_CELLS)):
            job = holders.get((kind, index), "")
            held = board.by_id.get(job, {})
            yield Cell(
                kind=kind,
                index=index,
                job=job,
                project=held.get("project", ""),
                user=held.get("user", ""),
                color=palette(held.get("project", "")) if job else 0,
                is_borrowed=held.get("class") == "borrowed",
                used=used.get(index) if kinds else None,
                is_bad=index in bad.get(kind, ()),
            )


def _holders(row: Row, kinds: Mapping[str, int]) -> Mapping[tuple[str, int], str]:
    """Return the job on each device; a machine without devices is held by its first job."""
    held: Mapping[str, Mapping[str, list[int]]] = row.get("held") or {}
    found = {
        (kind, index): job
        for job, by_kind in held.items()
        for kind, indices in by_kind.items()
        for index in indices
    }
    jobs = row.get("jobs") or ()
    return found if kinds else {("host", 0): jobs[0]} if jobs else {}
