"""The frame of every page: the bucket, the time of its data, the leading bastion, and problems."""

from __future__ import annotations

from collections.abc import Sequence

from bastion.client.status.local_machines import CONTINUE, RESTART, have_ended
from bastion.client.status.status_view import StatusView
from bastion.value import value
from bastion.version import VERSION
from bastion.web.drawing.render import span
from bastion.web.reading.board import Board, Published
from bastion.web.reading.board_reader import Look
from bastion.web.reading.live_use import Uses

MOST_PROBLEMS = 5
AGE_S = 60.0
"""Time after which an open page shows a new age of data that does not change."""


@value
class Frame:
    """The frame of one page."""

    look: Look
    version: str
    """Changes whenever a page would."""
    path: str
    bucket: str
    as_of: float
    leader: str
    user: str
    notices: tuple[tuple[str, str], ...]
    """(kind, text) of what the reader must know first; kind is `bad` or `warn`."""
    release: str = VERSION


def version_of(look: Look, uses: Uses, status: StatusView | None) -> str:
    """
    Return a value that changes whenever a page would.

    While the bucket or the bastion is out of reach it changes every minute, because pages show for
    how long.
    """
    away = f"!{(look.read_s or 0.0) // AGE_S:.0f}" if look.trouble else ""
    return f"{look.version}+{uses.number}{away}{_silence_of(status)}"


def _silence_of(status: StatusView | None) -> str:
    if status is None or not (status.absence or status.delay):
        return ""
    last = status.last_warning
    logged = f"w{last.at:.0f}" if last is not None else ""
    return f"{'~' if status.delay else '?'}{status.silent_s // AGE_S:.0f}{logged}"


def bare_frame(path: str) -> Frame:
    """Return the frame of a page that is created without reading the bucket."""
    nothing = Look(board=Board(Published()))
    return Frame(
        look=nothing,
        version="",
        path=path,
        bucket="a bucket",
        as_of=0.0,
        leader="",
        user="",
        notices=(),
    )


def frame_of(
    look: Look,
    uses: Uses,
    status: StatusView | None,
    *,
    path: str,
    user: str,
    root_url: str = "",
    unknown: Sequence[str] = (),
) -> Frame:
    """Return the frame of the page at `path`; `unknown` lists its invalid parameters."""
    return Frame(
        look=look,
        version=version_of(look, uses, status),
        path=path,
        bucket=status.bucket if status and status.bucket else "a bucket",
        as_of=status.as_of if status else look.board.as_of,
        leader=f"{status.leader} on {status.host}" if status and status.leader else "",
        user=user,
        notices=(*_notices(look, status, root_url), *(("warn", each) for each in unknown)),
    )


def _notices(look: Look, status: StatusView | None, root_url: str) -> list[tuple[str, str]]:
    if look.trouble:
        age = (
            "nothing could be read yet"
            if look.read_s is None
            else (f"this page shows what was read {span(look.read_s)} ago")
        )
        return [("bad", f"{look.trouble}; {age}.")]
    if look.is_empty or status is None:
        return [("warn", "No bastion has published anything here yet.")]
    told = [status.delay] if status.delay else []
    if status.absence:
        has_ended = have_ended(status, look.board.pools.values(), root_url)
        told.append(f"{status.absence}; {RESTART if has_ended else CONTINUE}")
    told += [status.last_words] if status.last_words else []
    return [
        *(("warn", each) for each in told),
        *(("bad", each) for each in status.refused_files),
        *(("warn", each) for each in status.problems[:MOST_PROBLEMS]),
    ]
