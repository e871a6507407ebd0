"""What a page is created from: one look at the bucket, and the frame around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from bastion.client.status.status_view import StatusView
from bastion.web import asked
from bastion.web.access import user_of
from bastion.web.drawing.kept_parts import KeptParts
from bastion.web.drawing.palette import Palette
from bastion.web.drawing.render import render
from bastion.web.frame import Frame, frame_of
from bastion.web.reading.bucket import Bucket
from bastion.web.settings import WebSettings


class Shown:
    """The input of every page: one look at the board."""

    def __init__(
        self,
        bucket: Bucket,
        settings: WebSettings,
        parts: KeptParts,
        request: Request,
        known: Mapping[str, asked.Check] | None,
    ) -> None:
        self.bucket = bucket
        self.look = bucket.boards.look()
        self.board = self.look.board
        self.uses = bucket.uses.look()
        self.parts = parts
        self.date = bucket.now()
        self.status: StatusView | None = self.board.status(wall=self.date)
        projects = (project.name for project in self.status.projects) if self.status else ()
        self.palette = Palette(projects)
        self.frame: Frame = frame_of(
            self.look,
            self.uses,
            self.status,
            path=request.url.path,
            user=user_of(request, settings),
            root_url=settings.root_url,
            unknown=() if known is None else unknown_in(request, known),
        )

    @property
    def now(self) -> float:
        """When the views were true; otherwise the date of the bucket."""
        return self.frame.as_of or self.date

    def page(self, template: str, **values: Any) -> str:
        """Return the page of `template` in its frame."""
        return render(template, frame=self.frame, palette=self.palette, **values)


def unknown_in(request: Request, known: Mapping[str, asked.Check]) -> list[str]:
    """Return a sentence on each parameter of the address that is unknown or invalid."""
    return asked.unknown(request.query_params.multi_items(), known)
