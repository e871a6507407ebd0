"""
The application: which address is which page.

A page is created in a thread, because calls that read the bucket block. Errors become a page of
their own, with the status that programs understand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlencode

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from bastion.errors import BastionError, NotFoundError, StoreError
from bastion.metrics.prometheus import PrometheusMeter
from bastion.web import asked
from bastion.web.access import CHART_POLICY, Access
from bastion.web.download import Downloads
from bastion.web.drawing.chart import usage_chart
from bastion.web.drawing.kept_parts import KeptParts
from bastion.web.drawing.occupancy import occupancy
from bastion.web.drawing.palette import Palette
from bastion.web.drawing.render import render
from bastion.web.drawing.use_chart import use_chart
from bastion.web.faults import Faults
from bastion.web.frame import bare_frame, version_of
from bastion.web.live import Followers, Live
from bastion.web.pages.ended import STATES, ended_page, listed_of
from bastion.web.pages.failures import failures_page
from bastion.web.pages.job.array_tasks import MOST_REASONS
from bastion.web.pages.job.host_use import CHARTS, host_key, use_part
from bastion.web.pages.job.log import file_name, log_part, offset_in, process_log, unknown_log
from bastion.web.pages.job.page import job_page, log_address
from bastion.web.pages.machines import machines_page, rows_of
from bastion.web.pages.now import now_page
from bastion.web.pages.quota import MOST_BYTES, quota_page, with_diff
from bastion.web.pages.timeline import lanes_of, timeline_page, view_of
from bastion.web.pages.usage import PERIODS, period_of, usage_page
from bastion.web.reading.bucket import Bucket
from bastion.web.reading.job_page import KnownJob
from bastion.web.reading.log_tail import LogTail
from bastion.web.reading.log_window import ProcessLog
from bastion.web.reading.trail import Happened
from bastion.web.settings import WebSettings
from bastion.web.shown import Shown, unknown_in

CHART_S = 30.0
"""How long a chart waits for the record: the page around it is already there."""
CHARTS_AT_ONCE = 4
"""Threads for charts: those that wait for the record must not take the threads of pages."""
SEARCHES_AT_ONCE = 4
"""Threads for searches of logs, which take seconds too."""
EVENTS = "text/event-stream"
FORM = "application/x-www-form-urlencoded"
PageOf = Callable[[Request, Shown], str]


class Site:
    """
    All pages of one bucket.

    Args:
        bucket: What they show.
        settings: How it is served.
        meter: The counters for `/metrics`.
    """

    def __init__(self, bucket: Bucket, settings: WebSettings, meter: PrometheusMeter) -> None:
        self._bucket = bucket
        self._settings = settings
        self._meter = meter
        self._parts = KeptParts()
        self._charts = CapacityLimiter(CHARTS_AT_ONCE)
        self._searches = CapacityLimiter(SEARCHES_AT_ONCE)
        self._downloads = Downloads()
        self._metered, self._metered_version = Lock(), ""
        """The answer of `/metrics` depends on the views: it is computed once per version."""
        self._live = Live(
            self._version,
            Followers(settings.followers),
            board_s=settings.read_every_s,
            log_s=settings.log_every_s,
        )

    def app(self) -> Starlette:
        """Return the application."""
        pages: dict[str, tuple[PageOf, Mapping[str, asked.Check]]] = {
            "/": (_now, asked.NOW),
            "/machines": (_machines, asked.MACHINES),
            "/timeline": (_timeline, asked.TIMELINE),
            "/ended": (_ended, asked.ENDED),
            "/failures": (_failures, asked.FAILURES),
            "/projects": (_projects, asked.USAGE),
            "/users": (_users, asked.USAGE),
            "/quota": (_quota, asked.QUOTA),
            "/jobs/{project}/{job}": (_job, asked.JOB),
        }
        routes = [Route(path, self._page(*page)) for path, page in pages.items()]
        return Starlette(
            routes=[
                *routes,
                Route("/quota", self._compare, methods=["POST"]),
                Route("/find", self._find),
                Route("/live", self._live_page),
                Route("/charts/{by}.svg", self._chart),
                Route("/metrics", self._metrics),
                Route("/jobs/{project}/{job}/use/{what}.svg", self._use_chart),
                Route("/jobs/{project}/{job}/log.txt", self._log_text),
                Route("/jobs/{project}/{job}/log/whole.txt", self._log_whole),
                Route("/jobs/{project}/{job}/log/live", self._log_live),
                Mount("/static", StaticFiles(packages=[("bastion.web", "static")])),
            ],
            middleware=[
                Middleware(Access, settings=self._settings),
                Middleware(Faults, page=self._broken),
                Middleware(GZipMiddleware, minimum_size=2000, compresslevel=4),
            ],
            exception_handlers={HTTPException: self._refused, BastionError: self._failed},
        )

    def _page(self, page: PageOf, known: Mapping[str, asked.Check]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            is_search = "find" in known and bool(request.query_params.get("find"))
            limiter = self._searches if is_search else None
            made = await run_sync(
                lambda: page(request, self._shown(request, known)), limiter=limiter
            )
            return HTMLResponse(made)

        return answer

    def _shown(self, request: Request, known: Mapping[str, asked.Check] | None = None) -> Shown:
        return Shown(self._bucket, self._settings, self._parts, request, known)

    async def _compare(self, request: Request) -> Response:
        kind = request.headers.get("content-type", FORM).partition(";")[0].strip().lower()
        if kind != FORM:
            raise HTTPException(415, f"this page takes a form, {FORM}, and not {kind}")
        data = b""
        async for chunk in request.stream():
            data += chunk
            if len(data) > 3 * MOST_BYTES:  # each byte may be written as three
                raise HTTPException(413, f"a quota file has at most {MOST_BYTES:,} bytes")
        try:
            fields = parse_qs(data.decode(errors="replace"), max_num_fields=4)
        except ValueError:
            raise HTTPException(400, "this page takes one field, text: a quota file") from None
        text = fields.get("text", [""])[0].replace("\r\n", "\n")

        def compared() -> str:
            shown = self._shown(request)
            page = quota_page(self._bucket.store, shown.status)
            page = with_diff(page, self._bucket.store, shown.board, text)
            return shown.page("quota.html", page=page)

        return HTMLResponse(await run_sync(compared))

    async def _find(self, request: Request) -> Response:
        name = request.query_params.get("name", "").strip()[:200]

        def place() -> tuple[str, str] | None:
            board = self._bucket.boards.look().board
            return self._bucket.jobs.place_of(board, name)

        found = await run_sync(place)
        if found is not None:
            return RedirectResponse("/jobs/{}/{}".format(*found), HTTPStatus.SEE_OTHER)
        return RedirectResponse(f"/?{urlencode({'search': name})}#queue", HTTPStatus.SEE_OTHER)

    async def _live_page(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type=EVENTS)
        return self._live.board(request.query_params.get("version", ""))

    async def _chart(self, request: Request) -> Response:
        by = {"projects": "project", "users": "user"}.get(request.path_params["by"])
        if by is None:
            raise HTTPException(404, "no such chart")

        def drawn() -> bytes | None:
            shown = self._shown(request)
            _, period = period_of(request.query_params, shown.now)
            summary = self._bucket.record.of(period, wait_s=CHART_S).summary
            return (
                None
                if summary is None
                else usage_chart(
                    summary,
                    shown.palette,
                    by=by,
                    project=request.query_params.get("project", ""),
                    device=request.query_params.get("device", ""),
                    is_narrow="narrow" in request.query_params,
                )
            )

        svg = await run_sync(drawn, limiter=self._charts)
        if svg is None:
            raise HTTPException(503, "the record cannot be read")
        headers = {"content-security-policy": CHART_POLICY}
        return Response(svg, media_type="image/svg+xml", headers=headers)

    async def _use_chart(self, request: Request) -> Response:
        what = request.path_params["what"]
        if what not in CHARTS:
            raise HTTPException(404, "no such chart")

        def drawn() -> bytes | None:
            job = _known(self._bucket, request).job
            key = host_key(job, log_address(job, request.query_params))
            host = self._bucket.host_use.of(key)
            is_narrow = "narrow" in request.query_params
            return None if host is None else use_chart(host, what, is_narrow=is_narrow)

        svg = await run_sync(drawn)
        if svg is None:
            raise HTTPException(404, "no sample of this host is in the bucket")
        headers = {"content-security-policy": CHART_POLICY}
        return Response(svg, media_type="image/svg+xml", headers=headers)

    def _version(self) -> str:
        look = self._bucket.boards.look()
        status = look.board.status(wall=self._bucket.now())
        return version_of(look, self._bucket.uses.look(), status)

    async def _metrics(self, request: Request) -> Response:
        def exposed() -> tuple[bytes, str]:
            look = self._bucket.boards.look()
            board = look.board
            seen, uses = board.published, self._bucket.uses.look()
            with self._metered:
                if (version := version_of(look, uses, None)) != self._metered_version:
                    fresh = ((name, uses.of(name, board.as_of)) for name in uses.told)
                    used = {name: use for name, use in fresh if use is not None}
                    self._meter.looked(seen.queue, seen.pool, seen.status, used)
                    self._metered_version = version
            return self._meter.answer(request.headers.get("accept", ""))

        data, content_type = await run_sync(exposed)
        return Response(data, headers={"content-type": content_type})

    async def _log_text(self, request: Request) -> Response:
        if told := unknown_in(request, asked.LOG):
            raise HTTPException(400, "; ".join(told))

        def text() -> str:
            known = _known(self._bucket, request)
            address = log_address(known.job, request.query_params)
            log = process_log(self._bucket.store, known.job, address)
            return log.window(offset_in(request.query_params)).text

        return PlainTextResponse(await run_sync(text))

    async def _log_whole(self, request: Request) -> Response:
        if told := unknown_in(request, asked.WHOLE_LOG):
            raise HTTPException(400, "; ".join(told))

        def log() -> tuple[ProcessLog, str]:
            job = _known(self._bucket, request).job
            address = log_address(job, request.query_params)
            if why := unknown_log(job, address):
                raise NotFoundError(why)
            return process_log(self._bucket.store, job, address), file_name(job, address)

        found, name = await run_sync(log)
        chunks = found.whole() if request.method == "GET" else iter(())  # HEAD reads nothing
        return await self._downloads.of(chunks, name=name)

    async def _log_live(self, request: Request) -> Response:
        def is_over() -> bool:
            try:
                return _known(self._bucket, request).job.has_ended
            except StoreError:
                return False

        known = await run_sync(lambda: _known(self._bucket, request))
        address = log_address(known.job, request.query_params)
        log = process_log(self._bucket.store, known.job, address)
        if request.method == "HEAD":
            return Response(media_type=EVENTS)
        at = offset_in({"at": request.headers.get("last-event-id", "")})
        at = offset_in(request.query_params) if at is None else at
        begin = await run_sync(log.size) if at is None else at
        return self._live.log(LogTail(log, begin), is_over)

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title = HTTPStatus(error.status_code).phrase
        text = (
            error.detail
            if error.detail != title
            else f"{request.url.path} is not a page of this site"
        )
        return await self._trouble(request, error.status_code, title, text, headers=error.headers)

    async def _failed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, BastionError)
        if isinstance(error, NotFoundError):
            return await self._trouble(request, 404, "Not found", error.message, hint=error.hint)
        title = (
            "The bucket is out of reach"
            if isinstance(error, StoreError)
            else "This cannot be shown"
        )
        status = 503 if isinstance(error, StoreError) else 500
        return await self._trouble(request, status, title, error.message, hint=error.hint)

    async def _broken(self, request: Request) -> Response:
        """Return the page for an internal error, created without anything that may be its cause."""
        values = {
            "title": "This page could not be made",
            "text": "Something went wrong in bastion web itself, and its log says what.",
            "hint": "Reload, or open another page; if it happens again, run bastion bug-report.",
        }
        frame = bare_frame(request.url.path)
        page = render("trouble.html", frame=frame, palette=Palette(()), **values)
        return HTMLResponse(page, status_code=500)

    async def _trouble(
        self,
        request: Request,
        status: int,
        title: str,
        text: str,
        *,
        hint: str = "",
        headers: Any = None,
    ) -> Response:
        def page() -> str:
            shown = self._shown(request)
            return shown.page("trouble.html", title=title, text=text, hint=hint)

        return HTMLResponse(await run_sync(page), status_code=status, headers=headers)


def _now(request: Request, shown: Shown) -> str:
    page = now_page(shown.board, shown.status, shown.palette, request.query_params)
    return shown.page("now.html", page=page, map=_map(shown))


def _map(shown: Shown) -> Markup:
    def made() -> str:
        map_of = occupancy(shown.board, shown.palette, shown.uses)
        return render("map.html", board=shown.board, occupancy=map_of)

    return shown.parts.of(("map", shown.frame.version), made)


def _machines(request: Request, shown: Shown) -> str:
    page = machines_page(shown.board, request.query_params)

    def made() -> str:
        machines = rows_of(page, shown.board, shown.palette, shown.uses)
        windows = shown.board.maintenance
        return render("machines_table.html", machines=machines, as_of=page.as_of, windows=windows)

    asked_for = (page.machines.number, page.show, *page.given.values())
    made_of = ("machines", shown.frame.version, *asked_for)
    return shown.page("machines.html", page=page, table=shown.parts.of(made_of, made))


def _timeline(request: Request, shown: Shown) -> str:
    query = request.query_params
    period = view_of(query, shown.now)
    page = timeline_page(period, shown.bucket.record.of(period), query)
    known_at, number = page.known.answered_at, page.machines.number
    made_of = (known_at, period, number, page.search, shown.palette.projects)

    def part(template: str) -> Markup:
        def made() -> str:
            return render(template, page=page, lanes=lanes_of(page, shown.palette))

        return shown.parts.of((template, made_of), made)

    return shown.page("timeline.html", page=page, part=part)


def _ended(request: Request, shown: Shown) -> str:
    query = request.query_params
    days, period = period_of(query, shown.now)
    known = shown.bucket.record.of(listed_of(period, query))
    page = ended_page(shown.status, known, query, days=days)
    return shown.page("ended.html", page=page, periods=PERIODS, states=STATES, now=shown.date)


def _failures(request: Request, shown: Shown) -> str:
    query = request.query_params
    days, period = period_of(query, shown.now, usual=1)
    known = shown.bucket.record.of(period)
    page = failures_page(shown.status, known, query, days=days)
    return shown.page("failures.html", page=page, periods=PERIODS, now=shown.date)


def _projects(request: Request, shown: Shown) -> str:
    return _usage(request, shown, "project")


def _users(request: Request, shown: Shown) -> str:
    return _usage(request, shown, "user")


def _usage(request: Request, shown: Shown, by: str) -> str:
    query = request.query_params
    days, period = period_of(query, shown.now)
    known = shown.bucket.record.of(period)
    page = usage_page(shown.board, shown.palette, known, query, by=by, days=days)
    return shown.page("usage.html", page=page, periods=PERIODS)


def _quota(_: Request, shown: Shown) -> str:
    return shown.page("quota.html", page=quota_page(shown.bucket.store, shown.status))


def _job(request: Request, shown: Shown) -> str:
    bucket, query = shown.bucket, request.query_params
    known = _known(bucket, request)
    job = known.job
    happened, record, code = Happened(), None, None
    try:
        happened = bucket.trail.of(job.id, since=job.submitted_at, until=job.ended_at)
        record = bucket.jobs.spec(job)
        code = bucket.jobs.code(record) if record is not None else None
    except StoreError:
        if not shown.look.trouble:
            raise
    page = job_page(job, known.past, happened, record, code, shown.board)
    address = log_address(job, query)
    own = process_log(bucket.store, job, address)
    log = log_part(own, job, address, query, place=request.url.path, clock=bucket.clock)
    use = use_part(
        bucket.host_use,
        shown.uses,
        job,
        known.past,
        address,
        place=request.url.path,
        as_of=shown.board.as_of,
    )
    processes = page.processes if page.spec is not None else None
    return shown.page(
        "job.html",
        page=page,
        log=log,
        unknown_log=unknown_log(job, address, processes=processes),
        use=use,
        most_reasons=MOST_REASONS,
    )


def _known(bucket: Bucket, request: Request) -> KnownJob:
    board = bucket.boards.look().board
    place = request.path_params
    return bucket.jobs.known(board, place["project"], place["job"])
