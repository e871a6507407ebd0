"""
Endless jobs of both projects after the play, for people who look at the page.

vision always has more jobs than fit, so it borrows and queues. From time to time language uses its
own half for a while. Then a borrower of vision is preempted, and starts again later. One kind of
job fails, and one lets its devices idle. Pure: the due jobs are computed from the active ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from bastion.value import value
from launch.demo.devices import STARVED

VISION_DEVICES = 26
"""vision keeps jobs of this many devices active, more than exist."""
LANGUAGE_EVERY_S = 90.0
MEANT_CODE = 3


@value
class Piece:
    """One job to submit."""

    user: str
    name: str
    devices: int
    runs_s: int
    exit_code: int = 0


VISION = (
    Piece(user="ada", name="detect", devices=8, runs_s=150),
    Piece(user="ada", name="segment", devices=4, runs_s=110),
    Piece(user="ada", name=STARVED, devices=2, runs_s=130),
    Piece(user="ada", name="caption", devices=6, runs_s=170),
    Piece(user="ada", name="broken", devices=4, runs_s=20, exit_code=MEANT_CODE),
)
LANGUAGE = (
    Piece(user="lin", name="pretrain", devices=6, runs_s=60),
    Piece(user="lin", name="align", devices=2, runs_s=75),
)


class Encore:
    """The jobs that are due since its start."""

    def __init__(self) -> None:
        self._next = 0
        self._language_at = 0.0

    def due(self, passed_s: float, active: Sequence[Piece]) -> tuple[Piece, ...]:
        """Return the jobs to submit `passed_s` after the start, in addition to those `active`."""
        found: list[Piece] = []
        devices = sum(each.devices for each in active if each.user == "ada")
        while devices < VISION_DEVICES:
            piece = VISION[self._next % len(VISION)]
            self._next += 1
            devices += piece.devices
            found.append(piece)
        if passed_s >= self._language_at and not any(each.user == "lin" for each in active):
            self._language_at = passed_s + LANGUAGE_EVERY_S
            found += LANGUAGE
        return tuple(found)
