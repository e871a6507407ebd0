"""The quota file in force, its problems, and what another one would change."""

from __future__ import annotations

from bastion.client.change.quota_file import QuotaFile
from bastion.client.status.status_view import StatusView
from bastion.client.submit.dry_run import of_quota
from bastion.client.submit.outlook import outlook_lines
from bastion.errors import NotFoundError, SpecError
from bastion.machine import Pool
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.settings.slow_pattern import refuse_slow_patterns
from bastion.scheduler.whatif import QuotaOutlook
from bastion.store.port import ObjectStore
from bastion.value import value
from bastion.web.reading.board import Board
from quota.file.config import parse
from quota.file.errors import QuotaError

MOST_BYTES = 256 << 10
"""Of a pasted quota file: a hundred times the longest that people write."""


@value
class QuotaPage:
    """What the page of the quota shows."""

    text: str
    """The file in the bucket."""
    in_force: str
    """The last good file, if the one in the bucket is not in force; else empty."""
    problems: tuple[str, ...]
    """What is wrong with it."""
    not_in_force: str
    """Why the newest file is not in force, in the bastion's words; else empty."""
    pasted: str = ""
    refused: tuple[str, ...] = ()
    """What is wrong with the pasted file."""
    changes: tuple[str, ...] = ()
    foreseen: tuple[str, ...] = ()
    is_compared: bool = False


def quota_page(store: ObjectStore, status: StatusView | None) -> QuotaPage:
    """
    Return the page of the file in the bucket.

    Raises:
        StoreError: Unreachable.
    """
    try:
        found = store.read(layout.QUOTA, limit_bytes=MOST_BYTES)
        text = found.data.decode(errors="replace") if found is not None else ""
    except NotFoundError:
        text = ""
    problem = status.quota_problem if status else ""
    return QuotaPage(
        text=text,
        in_force=QuotaFile(store).text_in_force() if problem else "",
        problems=_problems(text) if text else (),
        not_in_force=problem,
    )


def with_diff(page: QuotaPage, store: ObjectStore, board: Board, pasted: str) -> QuotaPage:
    """
    Return `page` with what would change if `pasted` were in force; nothing is written.

    Raises:
        StoreError: Unreachable.
    """
    refused = _problems(pasted)
    outlook: QuotaOutlook | None = None
    if not refused:
        try:
            outlook = of_quota(store, _pools(board), pasted)
        except SpecError as error:
            refused = error.problems
        except NotFoundError as error:
            refused = (error.message,)
    changes: tuple[str, ...] = ()
    if outlook is not None:
        change = outlook.change
        changes = tuple(map(str, (*change.shares, *change.members, *change.options)))
    return QuotaPage(
        text=page.text,
        in_force=page.in_force,
        problems=page.problems,
        not_in_force=page.not_in_force,
        pasted=pasted,
        refused=tuple(refused),
        changes=changes,
        foreseen=tuple(outlook_lines(outlook.outlook, board.as_of)) if outlook and changes else (),
        is_compared=outlook is not None,
    )


def _problems(text: str) -> tuple[str, ...]:
    try:
        refuse_slow_patterns(parse(text))
    except QuotaError as error:
        return tuple(str(problem) for problem in error.problems)
    return ()


def _pools(board: Board) -> dict[str, Pool]:
    from json import dumps

    key = layout.view("pool")
    rows = (decode(Pool, dumps(row).encode(), key=key) for row in board.pools.values())
    return {pool.name: pool for pool in rows}
