"""
Who may read: anyone on loopback, a request with the token, or the user that a proxy names.

Pages change nothing, so a forged request could only read. A header that names a user counts only
from the addresses of the proxy. From anywhere else it is refused, not ignored, so that a wrongly
configured proxy is noticed. Host names are checked if no secret protects the pages, because a
foreign page may point its own name at this machine.
"""

from __future__ import annotations

import hmac
from http import HTTPStatus

from starlette.datastructures import URL
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bastion.web.settings import WebSettings

COOKIE = "bastion_token"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]", "::1")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Only our own files: even unescaped text of a job would run nothing."""
CHART_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""A chart contains its style; it is shown as an image, in which no script runs."""
_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_PRIVATE = (b"cache-control", b"private, no-cache")
"""No cache that readers share keeps a page, and none shows an old one as if it were new."""


class Access:
    """
    Admits permitted readers, and sets the security headers of every answer.

    Args:
        app: What they read.
        settings: Who may read.
    """

    def __init__(self, app: ASGIApp, settings: WebSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers") or ())  # type: ignore[call-overload]
                names = {name.lower() for name, _ in given}
                is_same_for_all = scope["path"].startswith("/static/")
                ours = _HEADERS if is_same_for_all else (*_HEADERS, _PRIVATE)
                message["headers"] = [*given, *(each for each in ours if each[0] not in names)]
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_with_headers)  # type: ignore[arg-type]

    def _refusal(self, request: Request) -> Response | None:
        settings = self._settings
        if settings.user_header:
            return self._refuse_user(request)
        if settings.token:
            return self._refuse_token(request)
        if not _is_named(request, settings.host):
            return _refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "this server does not serve this host name; open the address that bastion web"
                " printed",
            )
        return None

    def _refuse_user(self, request: Request) -> Response | None:
        header = self._settings.user_header
        peer = request.client.host if request.client else ""
        if peer not in self._settings.proxies:
            return _refused(
                HTTPStatus.FORBIDDEN, f"{peer} is not the proxy that may name users; see --proxy"
            )
        if not user_of(request, self._settings):
            return _refused(HTTPStatus.UNAUTHORIZED, f"the proxy names no user in {header}")
        return None

    def _refuse_token(self, request: Request) -> Response | None:
        token = self._settings.token
        in_url = request.query_params.get("token")
        if in_url is not None and _same(in_url, token) and request.method == "GET":
            return _remembered(request.url.remove_query_params("token"), token)
        kind, _, carried = request.headers.get("authorization", "").partition(" ")
        given = carried if kind.lower() == "bearer" else request.cookies.get(COOKIE, "")
        if _same(given, token):
            return None
        refused = _refused(
            HTTPStatus.UNAUTHORIZED, "a token is needed: open the address that bastion web printed"
        )
        refused.headers["www-authenticate"] = "Bearer"
        return refused


def user_of(request: HTTPConnection, settings: WebSettings) -> str:
    """Return the user that the proxy names; empty if no header is trusted."""
    peer = request.client.host if request.client else ""
    if not settings.user_header or peer not in settings.proxies:
        return ""
    named = request.headers.getlist(settings.user_header)
    return named[0].strip() if len(named) == 1 else ""


def _remembered(url: URL, token: str) -> Response:
    """Redirect to the address without the token, which would be in histories; a cookie has it."""
    place = url.path + (f"?{url.query}" if url.query else "")
    answer = RedirectResponse(f"/{place.lstrip('/')}", status_code=HTTPStatus.SEE_OTHER)
    # Lax: a link to a job in a chat or a mail carries it too, and pages only read.
    answer.set_cookie(COOKIE, token, httponly=True, samesite="lax", path="/")
    return answer


def _is_named(request: Request, host: str) -> bool:
    named = request.headers.get("host", "").rsplit(":", 1)
    name = named[0] if len(named) == 1 or named[1].isdecimal() else ":".join(named)
    return name.lower() in (*LOOPBACK_NAMES, host.lower())


def _refused(status: HTTPStatus, why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=status)


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
