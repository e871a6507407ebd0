"""Unknown parameters of an address are reported on the page, never silently ignored."""

from __future__ import annotations

import re
from html import unescape

import pytest
from starlette.testclient import TestClient

from tests.bastion.web.site import busy_store, site

JOB = "/jobs/vision/train-0000000000"


def told(client: TestClient, address: str) -> list[str]:
    """Return the notices of a page."""
    answer = client.get(address)
    assert answer.status_code == 200
    return [
        unescape(text) for text in re.findall(r'class="notice warn"[^>]*>([^<]*)<', answer.text)
    ]


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (
            "/timeline?since=7d",
            "unknown parameter since in the address; this page takes span,",
        ),
        (
            "/timeline?span=2d",
            "span=2d in the address is invalid; span is 1h, 6h, 24h, 7d",
        ),
        (
            "/timeline?from=yesterday",
            "from=yesterday in the address is invalid; from is a date",
        ),
        ("/timeline?from=2026-11-02&to=2026-11-01", "to in the address is not after from"),
        (
            "/projects?days=14",
            "days=14 in the address is invalid; days is 1, 7, 30, 90, this-month or last-month",
        ),
        ("/users?user=ada", "unknown parameter user in the address; this page takes project,"),
        ("/failures?user=ada", "unknown parameter user in the address; this page takes project,"),
        ("/?show=held", "show=held in the address is invalid; show is running or queued"),
        (
            "/?state=running&state=queued",
            "state appears 2 times in the address; the last one counts",
        ),
        ("/machines?page=two", "page=two in the address is invalid; page is a whole number"),
        (
            "/quota?project=vision",
            "unknown parameter project in the address; this page takes no",
        ),
        (
            f"{JOB}?attempt=last",
            "attempt=last in the address is invalid; attempt is a whole",
        ),
    ],
)
def test_what_an_address_asks_in_vain_is_told(address: str, sentence: str) -> None:
    """The notice has its name and value, and what the page accepts."""
    with site(busy_store()) as client:
        assert [each[: len(sentence)] for each in told(client, address)] == [sentence]


def test_what_a_page_takes_is_not_told() -> None:
    """Parameters of its own links and forms, and empty form fields, cause no notice."""
    with site(busy_store()) as client:
        record = ("/timeline", "/ended", "/failures", "/projects", "/users")
        for place in ("/", "/machines", *record, JOB):
            page = client.get(place).text
            links = re.findall(r'(?:href|action)="((?:[?]|/[a-z]*[?])[^"#]*)', page)
            form = page.partition("<main")[2]
            names = dict.fromkeys(re.findall(r'<(?:input|select)[^>]* name="([a-z]+)"', form))
            for link in (*map(unescape, links), "?" + "&".join(f"{name}=" for name in names)):
                if not link.startswith("/find"):
                    assert not told(client, link if link.startswith("/") else place + link), link


def test_many_unknown_things_are_counted_and_long_ones_cut() -> None:
    """For any address, a page has a few short sentences about it."""
    with site(busy_store()) as client:
        many = told(client, "/?" + "&".join(f"x{n}={n}" for n in range(500)))
        (long,) = told(client, f"/?{'y' * 9000}=1")
    assert len(many) == 6
    assert many[-1] == "495 more parameters of the address are unknown or invalid"
    assert len(long) < 300


def test_one_end_of_a_period_is_enough() -> None:
    """`from` alone means until now, and `to` alone the day before it."""
    with site(busy_store()) as client:
        since = client.get("/timeline?from=2026-11-18T00:00").text
        until = client.get("/timeline?to=2026-11-18T00:00").text
        later = client.get("/timeline?from=2027-01-01").text
    assert "2026-11-18 00:00:00 to 2026-11-18 11:07:00" in since
    assert "2026-11-17 00:00:00 to 2026-11-18 00:00:00" in until
    assert "2026-11-17 11:07:00 to 2026-11-18 11:07:00" in later


def test_the_text_of_a_log_refuses_what_it_does_not_know() -> None:
    """A program would otherwise read the log of another attempt than the named one."""
    with site(busy_store()) as client:
        answer = client.get(f"{JOB}/log.txt?attempt=x")
        assert client.get(f"{JOB}/log.txt?attempt=1&at=").status_code != 400
    assert answer.status_code == 400
    assert "attempt=x in the address is invalid; attempt is a whole number" in answer.text


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("attempt=9", "there is no attempt 9; the newest is 1"),
        ("replica=7", "there is no replica 7; the job has 1, counted from 0"),
        ("attempt=1&replica=0", None),
    ],
)
def test_a_log_that_the_job_cannot_have_is_not_called_silent(
    asked: str, sentence: str | None
) -> None:
    """The page says that there is no such attempt or replica, and how many there are."""
    with site(busy_store(machines=4, running=40)) as client:
        assert told(client, f"{JOB}?{asked}") == ([sentence] if sentence else [])
