"""Who can read the pages."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from bastion.errors import SpecError
from bastion.web.access import COOKIE
from bastion.web.settings import WebSettings
from tests.bastion.web.site import busy_store, site

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.7", "::", "example.com"])
def test_others_reach_the_pages_only_with_a_secret(host: str) -> None:
    """An address beyond loopback is refused without a token or an authenticating proxy."""
    with pytest.raises(SpecError, match="token_file"):
        WebSettings(root_url="memory:", host=host)
    WebSettings(root_url="memory:", host=host, token=TOKEN)


@pytest.mark.parametrize("proxy", ["10.0.0", "10.0.0.0/8", "proxy.example", ""])
def test_a_proxy_that_is_no_address_is_refused(proxy: str) -> None:
    """It would match no request, and every request would be forbidden."""
    with pytest.raises(SpecError, match=f"proxy: '{proxy}' is no IP address"):
        WebSettings(root_url="memory:", user_header="X-User", proxies=(proxy,))
    WebSettings(root_url="memory:", user_header="X-User", proxies=("10.0.0.5", "fd00::5"))


def test_a_proxy_that_names_no_user_is_refused() -> None:
    """Without the header its address means nothing, and the pages would be open."""
    with pytest.raises(SpecError, match=r"proxy: 10\.0\.0\.5 without user_header"):
        WebSettings(root_url="memory:", proxies=("10.0.0.5",))


def test_a_token_opens_every_page_and_leaves_the_address() -> None:
    """It is taken from the address once, kept in a cookie, or sent as a bearer token."""
    with site(busy_store(), token=TOKEN) as client:
        refused = client.get("/")
        wrong = client.get("/?token=wrong")
        first = client.get(f"/machines?pool=x&token={TOKEN}")
        carried = client.get("/", headers={"authorization": f"Bearer {TOKEN}"})
        client.cookies.set(COOKIE, TOKEN)
        kept = client.get("/")
    assert (refused.status_code, wrong.status_code) == (401, 401)
    assert "train-" not in refused.text
    assert refused.headers["content-security-policy"]
    assert first.headers["location"] == "/machines?pool=x"
    assert "HttpOnly; Path=/; SameSite=lax" in first.headers["set-cookie"]
    assert (carried.status_code, kept.status_code) == (200, 200)


@pytest.mark.parametrize("path", ["/", "/jobs/vision/train-0000000000/log.txt", "/metrics", "/no"])
def test_no_shared_cache_keeps_a_page(path: str) -> None:
    """A proxy that caches would show pages to those who may not read them."""
    with site(busy_store()) as client:
        assert client.get(path).headers["cache-control"] == "private, no-cache"
        assert "cache-control" not in client.get("/static/style.css").headers
        assert client.get("/", headers={"host": "evil"}).headers["cache-control"]


def test_a_redirect_never_leaves_the_server() -> None:
    """An address that begins with two slashes does not become the name of another server."""
    with site(busy_store(), token=TOKEN) as client:
        answer = client.get(f"http://127.0.0.1//example.com/?token={TOKEN}")
    assert answer.headers["location"] == "/example.com/"


def test_the_user_header_of_the_proxy_alone_is_believed() -> None:
    """From the proxy it names the user; from another address, or missing, it is refused."""
    named = {"x-forwarded-user": "ada"}
    with site(busy_store(), user_header="X-Forwarded-User") as client:
        known, none = client.get("/", headers=named), client.get("/")
        twice = client.get("/", headers=[("x-forwarded-user", "ada"), ("x-forwarded-user", "root")])
        stranger = TestClient(client.app, base_url="http://127.0.0.1", client=("10.9.9.9", 1))
        forged = stranger.get("/", headers=named)
    assert "you are ada" in known.text
    assert none.status_code == 401
    assert twice.status_code == 401
    assert forged.status_code == 403


def test_no_header_is_believed_without_the_setting() -> None:
    """A header with a user has no effect if no proxy is configured."""
    with site(busy_store()) as client:
        assert "you are" not in client.get("/", headers={"x-forwarded-user": "ada"}).text


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", ""])
def test_a_foreign_name_of_this_machine_is_refused(name: str) -> None:
    """A foreign page whose name points at loopback reads nothing."""
    with site(busy_store()) as client:
        assert client.get("/", headers={"host": name}).status_code == 421
        assert client.get("/", headers={"host": "localhost:8420"}).status_code == 200
        assert client.get("/", headers={"host": "[::1]:8420"}).status_code == 200


def test_pages_answer_reading_alone() -> None:
    """All methods but GET and the comparison of a quota file are refused."""
    with site(busy_store()) as client:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert client.request(method, "/").status_code == 405
