"""Pages on paper, on narrow screens and of a server that refuses, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from bastion.store.folder.local import LocalStore
from tests.end_to_end.page_server import served
from tests.rigs.busy_bucket import busy_root, write_bucket
from tests.servers.browser import chromium, needs_chromium, page_of


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the pages of a busy bucket."""
    folder: Path = tmp_path_factory.mktemp("styles") / "bucket"
    write_bucket(LocalStore(folder, makes_root=True), busy_root(machines=4, running=6, queued=9))
    with served(folder) as place:
        yield place


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run a browser."""
    with chromium() as found:
        yield found


@needs_chromium
@pytest.mark.end_to_end
def test_a_printed_page_has_no_controls_and_is_not_dark(address: str, browser: Browser) -> None:
    """Paper has no menu and no form, a white ground, and the colors of devices."""
    with page_of(browser, address, scheme="dark") as (page, wrong):
        page.goto("/")
        page.emulate_media(media="print")
        for control in (".top", ".filters", "#jump"):
            expect(page.locator(control).first).to_be_hidden()
        expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
        expect(page.locator(".cell").first).to_have_css("print-color-adjust", "exact")
        expect(page.locator(".map").first).to_have_css("max-height", "none")
        assert not wrong


@needs_chromium
@pytest.mark.end_to_end
def test_the_longest_name_of_a_project_has_its_own_line(address: str, browser: Browser) -> None:
    """On a narrow screen it squeezes no number beside it."""
    with page_of(browser, address, width=390) as (page, _):
        page.goto("/")
        name, number = page.evaluate(
            "() => { const it = document.querySelector('.share h3');"
            " it.querySelector('a').append('x'.repeat(63));"
            " return [...it.children].map(each => each.getBoundingClientRect()) }"
        )
        assert number["top"] >= name["bottom"] - 1
        assert name["right"] <= 390


@needs_chromium
@pytest.mark.end_to_end
def test_a_page_whose_server_refuses_says_so_and_asks_ever_less(
    address: str, browser: Browser
) -> None:
    """An error page is no newer content, and it is not asked for as fast as a pending record."""
    asked = 0

    def refuse(route: Route) -> None:
        nonlocal asked
        if "x-live" not in route.request.headers:
            return route.continue_()
        asked += 1
        return route.fulfill(status=500, body="no")

    with page_of(browser, address) as (page, _):
        page.route("**/*", refuse)
        page.route("**/live?*", lambda route: route.fulfill(status=500, body="no"))
        page.goto("/")
        page.evaluate("document.body.append(document.createElement('i'))")
        page.evaluate("document.body.lastChild.dataset.pending = ''; awaitRecord()")
        expect(page.locator("#not-live")).to_be_visible(timeout=30_000)
    assert 0 < asked <= 5
