"""Every machine: its health, jobs, use, the time since which it is idle, and its price."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bastion.value import value
from bastion.web.drawing.occupancy import MachineMap, machine_map, trouble_of
from bastion.web.drawing.paging import Part, Tab, page_number, part_of, tabs_of
from bastion.web.drawing.palette import Palette
from bastion.web.pages.job.spent import price_of
from bastion.web.reading.board import Board, Row
from bastion.web.reading.live_use import Uses
from quota.amounts import Amounts

FILTERS = ("search", "pool", "phase")
TABS = {"": "All", "trouble": "In trouble", "idle": "Idle"}
"""Tabs of the table: those that accept no new job, or not on all devices; and those without one."""


@value
class MachineRow:
    """One machine."""

    name: str
    pool: str
    phase: str
    trouble: str
    zone: str
    host: str
    has: Amounts
    free: Amounts
    jobs: tuple[tuple[str, str], ...]
    """(project, ID) of each job on it."""
    heard_at: float
    idle_since: float | None
    price_per_hour: float
    """In the admin's own currency, or dollars of a price list; 0 if unknown."""
    is_list_price: bool
    map: MachineMap
    cores: float | None
    """In use on the whole machine; None: it has reported nothing recently."""
    memory_bytes: int = 0


@value
class MachinesPage:
    """What the page of machines shows."""

    machines: Part[Row]
    pools: tuple[str, ...]
    tabs: tuple[Tab, ...]
    show: str
    """The name of the tab in the address."""
    given: Mapping[str, str]
    """The requested filters."""
    phases: Mapping[str, int]
    as_of: float


def machines_page(board: Board, query: Mapping[str, str]) -> MachinesPage:
    """Return the page for an address."""
    given = {name: query.get(name, "").strip()[:200] for name in FILTERS}
    show = query.get("show", "") if query.get("show") in TABS else ""
    number = page_number(query.get("page", ""))
    every = list(_chosen(board, given))
    parts = {
        "": every,
        "trouble": [row for row in every if trouble_of(row)],
        "idle": [row for row in every if not trouble_of(row) and not row.get("jobs")],
    }
    phases: dict[str, int] = {}
    for row in board.machines:
        phases[row.get("phase", "")] = phases.get(row.get("phase", ""), 0) + 1
    return MachinesPage(
        machines=part_of(parts[show], number, path="/machines", query={**given, "show": show}),
        pools=tuple(sorted({*board.pools, *(row.get("pool", "") for row in board.machines)})),
        tabs=tabs_of(
            TABS,
            {name: len(rows) for name, rows in parts.items()},
            show,
            path="/machines",
            query=given,
        ),
        show=show,
        given=given,
        phases=phases,
        as_of=board.pool_as_of,
    )


def rows_of(
    page: MachinesPage, board: Board, palette: Palette, uses: Uses
) -> tuple[MachineRow, ...]:
    """Return the machines on the page, with everything that it shows about them."""
    return tuple(_row(board, row, palette, uses) for row in page.machines.rows)


def _chosen(board: Board, given: Mapping[str, str]) -> Iterator[Row]:
    wanted = given["search"].casefold()
    for row in board.machines:
        if given["pool"] not in ("", row.get("pool")) or given["phase"] not in ("", row["phase"]):
            continue
        texts = (row["name"], row.get("hostname"), row.get("zone"), trouble_of(row))
        if wanted and wanted not in "\n".join(filter(None, texts)).casefold():
            continue
        yield row


def _row(board: Board, row: Row, palette: Palette, uses: Uses) -> MachineRow:
    jobs = row.get("jobs") or ()
    use = uses.of(row["name"], board.pool_as_of)
    pool = board.pools.get(row.get("pool", ""), {})
    return MachineRow(
        name=row["name"],
        pool=row.get("pool", ""),
        phase=row.get("phase", ""),
        trouble=trouble_of(row),
        zone=row.get("zone") or "",
        host=row.get("hostname") or "",
        has=Amounts(row.get("resources") or {}),
        free=Amounts(row.get("free") or {}),
        jobs=tuple((board.by_id.get(job, {}).get("project", ""), job) for job in jobs),
        heard_at=row.get("heard_at") or 0.0,
        idle_since=None if jobs else row.get("idle_since"),
        price_per_hour=price_of(pool, board.as_of),
        is_list_price=not pool.get("price_per_hour"),
        map=machine_map(board, row, palette, uses),
        cores=use.cores if use is not None else None,
        memory_bytes=use.memory_bytes if use is not None else 0,
    )
