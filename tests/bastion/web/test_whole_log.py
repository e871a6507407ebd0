"""A whole log: searched for as long as a reader waits, and downloaded in bounded memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from bastion.clock import VirtualClock
from bastion.errors import StoreError
from bastion.logs.segments import segment_key
from bastion.records.keys import layout
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.web.download import Downloads
from bastion.web.reading.log_window import SEARCH_S
from tests.bastion.web.site import busy_store, site
from tests.rigs.busy_bucket import NOW

JOB = "/jobs/vision/train-0000000000"
WHOLE = f"{JOB}/log/whole.txt"
PREFIX = layout.log("vision", "train-0000000000", 1, replica=0, host=0, process=0)
SCOPE = {"type": "http", "asgi": {"spec_version": "2.4"}}
"""Of a request whose reader is known to leave only when something is sent."""
MEGABYTE = b"hay \x1b[1mstack\n" * 66_000


def _log(*pieces: bytes) -> MemoryStore:
    store, at = busy_store(), 0
    for piece in pieces:
        store.create(segment_key(PREFIX, at), piece)
        at += len(piece)
    return store


def _range_text(page: str) -> str:
    found = re.search(r"<p>(\w+ lines? with .*?)</p>", page)
    assert found is not None
    return re.sub(r"<[^>]+>", "", found[1]).replace(" · download all", "")


def test_the_page_of_a_job_leads_to_its_whole_log() -> None:
    """Every byte that was printed, as a file that is named after its process."""
    with site(_log(*[MEGABYTE] * 3, b"end")) as client:
        page = client.get(f"{JOB}?find=end").text
        link = re.search(r'href="([^"]*whole.txt[^"]*)">download all', page)
        assert link is not None
        answer = client.get(link[1].replace("&amp;", "&"))
        head = client.head(WHOLE)
        other = client.get(f"{WHOLE}?replica=3")
        refused = client.get(f"{WHOLE}?at=7")
        gone = client.get("/jobs/vision/gone-0123456789/log/whole.txt")
    assert answer.content == 3 * MEGABYTE + b"end"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    name = "train-0000000000-a1-r0-h0-p0.log"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert (head.status_code, head.content) == (200, b"")
    assert other.status_code == 404
    assert "there is no replica 3; the job has 1, counted from 0" in other.text
    assert refused.status_code == 400
    assert gone.status_code == 404


def test_a_whole_log_is_for_those_who_may_read_alone() -> None:
    """As the pages are."""
    with site(_log(b"mine"), token="secret-secret") as client:
        refused = client.get(WHOLE)
        given = client.get(WHOLE, headers={"authorization": "Bearer secret-secret"})
    assert refused.status_code == 401
    assert "mine" not in refused.text
    assert given.content == b"mine"


def test_a_log_that_cannot_be_read_is_an_error_and_not_an_empty_file() -> None:
    """What a bucket that is away has is not known."""
    store = FaultyStore(
        _log(b"mine"),
        lambda operation, key: Fault.BEFORE if key.startswith("logs/") else None,
    )
    with site(store) as client:
        assert client.get(WHOLE).status_code == 503


def test_a_search_says_which_part_of_the_log_it_has_read() -> None:
    """All of it, all from an offset, or up to where the time was over, with the way on."""
    clock = VirtualClock(wall=NOW)

    def slow(operation: str, key: str) -> Fault | None:
        if operation == "read" and key.startswith("logs/"):
            clock.advance(SEARCH_S / 10)
        return None

    store = FaultyStore(_log(*[MEGABYTE] * 40, b"needle\n"), slow)
    size = 40 * len(MEGABYTE) + 7
    with site(_log(b"one\nneedle\n")) as client:
        assert _range_text(client.get(f"{JOB}?find=needle").text) == (
            "1 line with “needle” in the whole log"
        )
        later = client.get(f"{JOB}?find=needle&at=6").text
        assert _range_text(later) == "0 lines with “needle” from byte 6 to the end"
        beyond = client.get(f"{JOB}?find=needle&at=999").text
        assert _range_text(beyond) == (
            "0 lines with “needle” from byte 999 on: the log ends at byte 11"
        )
    with site(store, clock=clock) as client:
        page = client.get(f"{JOB}?find=needle").text
        told = re.fullmatch(
            r"0 lines with “needle” in bytes 0 to ([\d,]+) of ([\d,]+) · search on",
            _range_text(page),
        )
        assert told is not None
        assert int(told[2].replace(",", "")) == size
        searches = 1
        while following := re.search(r'href="([^"]*)">search on', page):
            page = client.get(following[1].replace("&amp;", "&").partition("#")[0]).text
            searches += 1
    assert 1 < searches <= 4
    assert "1 line with" in page


def test_few_logs_are_downloaded_at_the_same_time() -> None:
    """Others are told to wait, and each that ends or fails makes room for the next."""

    def chunks() -> Iterator[bytes]:
        yield b"one"
        yield b"two"
        raise StoreError("gs://bucket: 500")

    async def run() -> None:
        downloads, bodies = Downloads(most=1), list[bytes]()

        async def send(message: Any) -> None:
            bodies.append(message.get("body", b""))
            with pytest.raises(HTTPException) as refusal:
                await downloads.of(chunks(), name="x")
            assert refusal.value.status_code == 503

        for _ in range(2):
            answer = await downloads.of(chunks(), name="x")
            with pytest.raises(StoreError):
                await answer(SCOPE, _no_request, send)
        assert bodies == [b"", b"one", b"two"] * 2

    asyncio.run(run())


def test_logs_whose_first_byte_is_awaited_count_as_downloads() -> None:
    """A slow bucket admits no more of them; one that cannot be read makes room again."""
    is_read = Event()

    def slow() -> Iterator[bytes]:
        if is_read.wait(60):
            raise StoreError("gs://bucket: 500")
        yield b"never"

    async def run() -> None:
        downloads = Downloads(most=1)
        first = asyncio.create_task(downloads.of(slow(), name="x"))
        await asyncio.sleep(0)
        try:
            with pytest.raises(HTTPException):
                await downloads.of(iter([b"one"]), name="x")
        finally:
            is_read.set()
        with pytest.raises(StoreError):
            await first
        assert (await downloads.of(iter([b"one"]), name="x")).status_code == 200

    asyncio.run(run())


async def _no_request() -> Any:
    raise AssertionError("a download reads no request")
