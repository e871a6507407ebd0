"""Debian's Chromium, headless, driven by playwright; axe-core finds accessibility faults."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

Scheme: TypeAlias = Literal["light", "dark"]
CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a separate browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(
    browser: Browser,
    address: str,
    *,
    scheme: Scheme = "light",
    width: int = 1600,
    script: bool = True,
) -> Iterator[tuple[Page, list[str]]]:
    """Open a page at `address`, and collect errors, refused sources and failed requests."""
    context = browser.new_context(
        base_url=address,
        color_scheme=scheme,
        viewport={"width": width, "height": 1000},
        java_script_enabled=script,
        reduced_motion="reduce",
    )
    wrong: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    try:
        yield page, wrong
    finally:
        context.close()


def faults_of(page: Page) -> list[str]:
    """Return what axe-core calls serious or critical, with the elements."""
    page.evaluate(AXE.read_text())
    found: Any = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{fault['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"][:3]
    ]
