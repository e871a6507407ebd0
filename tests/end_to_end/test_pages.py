"""Every page in a real browser: live, accessible, complete without a script."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from bastion.logs.segments import segment_key
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.store.folder.local import LocalStore
from bastion.web.serve import NICE
from tests.end_to_end.page_server import COMMAND, served
from tests.end_to_end.programs import alive_in, until
from tests.rigs.busy_bucket import busy_root, write_bucket, write_history, write_use
from tests.servers.browser import Scheme, chromium, faults_of, needs_chromium, page_of

JOB = "/jobs/vision/train-0000000000"
SILENT = "/jobs/language/train-0000000003"
"""It runs, and has printed nothing."""
PATHS = (
    "/",
    JOB,
    SILENT,
    "/machines",
    "/timeline?span=24h",
    "/failures",
    "/projects",
    "/users",
    "/quota",
    "/jobs/x/y",
)
LOG = layout.log("vision", "train-0000000000", 1, replica=0, host=0, process=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder of the bucket."""
    return tmp_path_factory.mktemp("pages") / "bucket"


@pytest.fixture(scope="module")
def bucket(folder: Path) -> LocalStore:
    """Provide a busy bucket in a folder, with a record, a log and a root."""
    store = LocalStore(folder, makes_root=True)
    root = replace(busy_root(machines=8, running=9, queued=70), next_event=1_000_000)
    write_bucket(store, root)
    write_history(store, root, days=2, a_day=24)
    write_use(store, root)
    store.create(layout.ROOT, encode(root))
    store.create(segment_key(LOG, 0), b"step 1 <b>bold</b>\n")
    return store


@pytest.fixture(scope="module")
def address(bucket: LocalStore, folder: Path) -> Iterator[str]:
    """Serve its pages; return the address."""
    assert bucket.list(layout.VIEWS)
    with served(folder) as place:
        yield place


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run one browser for all tests."""
    with chromium() as started:
        yield started


@needs_chromium
@pytest.mark.end_to_end
def test_pages_go_on_by_themselves_and_serve_the_keyboard(
    bucket: LocalStore, address: str, browser: Browser
) -> None:
    """Open pages show changed views and new log lines; links can be focused."""
    root = replace(busy_root(machines=8, running=9, queued=70), next_event=1_000_000)
    with page_of(browser, address) as (page, wrong), page_of(browser, address) as (job, troubles):
        page.goto("/")
        job.goto(JOB)
        expect(page.locator("#counts")).to_contain_text("70")
        page.keyboard.press("Tab")
        expect(page.locator(".skip").first).to_be_focused()
        page.locator("#jobs a.id").first.focus()
        name, first = next(iter(root.jobs.items()))
        jobs = {**root.jobs, name: replace(first, user="somebody-new")}
        del jobs[next(reversed(jobs))]
        write_bucket(bucket, replace(root, seq=root.seq + 1, jobs=jobs))
        expect(page.locator("#counts")).to_contain_text("69", timeout=30_000)
        expect(page.locator("#jobs")).to_contain_text("somebody-new")
        expect(page.locator("#jobs a.id").first).to_be_focused()
        expect(job.locator("#log-text")).to_contain_text("<b>bold</b>")
        bucket.create(segment_key(LOG, 19), b"step 2 <script>alert(1)</script>\n")
        expect(job.locator("#log-text")).to_contain_text("step 2 <script>", timeout=30_000)
        assert not wrong + troubles
        assert not faults_of(page) + faults_of(job)


@needs_chromium
@pytest.mark.prove
@pytest.mark.end_to_end
def test_a_followed_log_survives_a_restart_of_the_server(
    bucket: LocalStore, folder: Path, browser: Browser
) -> None:
    """Output from before, during and after the outage of a server is shown once, in order."""
    job, prefix = _followable(bucket)
    pieces = [b"one\n 10%\r", b" 20%\rtwo \xc3", b"\xa9\nthree\n", b"four\n"]

    def write(first: int, after: int) -> None:
        for n in range(first, after):
            bucket.create(segment_key(prefix, sum(map(len, pieces[:n]))), pieces[n])

    write(0, 1)
    with served(folder) as place:
        port = int(place.rpartition(":")[2])
        with page_of(browser, place) as (page, _):
            page.goto(job)
            log = page.locator("#log-text")
            expect(log).to_have_text("one\n 10%", use_inner_text=True)
            shown = page.locator("#log-bytes")
            expect(shown).to_contain_text("bytes 0\N{EN DASH}9 of")
            write(1, 2)
            expect(shown).to_have_text("bytes 0\N{EN DASH}14 and growing", timeout=30_000)
            expect(log).to_have_text("one\ntwo", use_inner_text=True, timeout=30_000)
            server = psutil.Process(_server_on(port))
            server.terminate()
            server.wait(20)
            write(2, 3)
            with served(folder, port=port):
                expect(log).to_have_text("one\ntwo é\nthree\n", use_inner_text=True, timeout=30_000)
                write(3, 4)
                whole = "one\ntwo é\nthree\nfour\n"
                expect(log).to_have_text(whole, use_inner_text=True, timeout=30_000)


@needs_chromium
@pytest.mark.end_to_end
def test_what_a_reader_opened_and_scrolled_stays_while_a_page_goes_on(
    tmp_path: Path, browser: Browser
) -> None:
    """The map stays where it was scrolled to, and an opened list stays open."""
    store = LocalStore(tmp_path / "bucket", makes_root=True)
    root = busy_root(machines=200, running=9, queued=10)
    write_bucket(store, root)
    _write_array(store, failed=100)
    with (
        served(tmp_path / "bucket") as place,
        page_of(browser, place) as (page, wrong),
        page_of(browser, place) as (array, _),
    ):
        page.goto("/")
        array.goto("/jobs/vision/sweep-0123456789")
        map_, tasks = page.locator(".map"), array.locator("#tasks")
        map_.evaluate("(each) => each.scrollTo(0, 300)")
        tasks.locator("summary").click()
        name, first = next(iter(root.jobs.items()))
        jobs = {**root.jobs, name: replace(first, user="somebody-new")}
        write_bucket(store, replace(root, seq=root.seq + 1, jobs=jobs))
        _write_array(store, failed=101)
        expect(map_).to_contain_text("somebody-new", timeout=30_000)
        expect(tasks).to_contain_text("101", timeout=30_000)
        assert map_.evaluate("(each) => each.scrollTop") == 300
        expect(tasks.locator("details p")).to_be_visible()
        assert not wrong


def _write_array(store: LocalStore, *, failed: int) -> None:
    """Add an array to the published queue, with `failed` failed tasks."""
    key = layout.view("queue")
    found = store.read(key)
    assert found is not None
    array = {
        "id": "sweep-0123456789",
        "project": "vision",
        "state": "queued",
        "counts": {"queued": 9, "failed": failed},
        "waiting": "1000-1008",
        "ended": {"failed": f"0-{failed - 1}"},
    }
    queue = json.loads(found.data) | {"arrays": [array]}
    store.swap(key, json.dumps(queue).encode(), if_version=found.version)


def _followable(bucket: LocalStore) -> tuple[str, str]:
    """Return the address and the log of a running job that has printed nothing."""
    found = bucket.read(layout.view("queue"))
    assert found is not None
    row = json.loads(found.data)["jobs"][5]
    assert row["phase"] == "running"
    prefix = layout.log(row["project"], row["id"], 1, replica=0, host=0, process=0)
    return f"/jobs/{row['project']}/{row['id']}", prefix


def _server_on(port: int) -> int:
    """Return the pid of the program of this test that listens on `port`."""
    for child in psutil.Process().children():
        if any(each.laddr.port == port for each in child.net_connections("tcp")):
            return child.pid
    raise AssertionError(f"nothing listens on {port}")


@needs_chromium
@pytest.mark.prove
@pytest.mark.end_to_end
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1280, 1600])
def test_a_page_shuts_no_reader_out(
    address: str, browser: Browser, path: str, scheme: Scheme, width: int
) -> None:
    """There is no serious fault, nothing wider than the screen, nothing refused by the policy."""
    with page_of(browser, address, scheme=scheme, width=width) as (page, wrong):
        page.goto(path)
        expect(page.locator("main")).to_be_visible()
        expect(page.locator("[data-pending]")).to_have_count(0, timeout=30_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelector('.top').offsetHeight") <= 60
        assert not faults_of(page)
        missing = [line for line in wrong if "404" not in line]
        assert not missing


@needs_chromium
@pytest.mark.end_to_end
@pytest.mark.parametrize("width", [390, 700, 1000])
def test_the_search_field_and_the_own_page_in_the_menu_are_in_view(
    address: str, browser: Browser, width: int
) -> None:
    """On a narrow screen the menu scrolls to the shown page, and the search field stays."""
    with page_of(browser, address, width=width) as (page, wrong):
        page.goto("/quota")
        for part in ("#jump", ".top nav [aria-current]"):
            box = page.locator(part).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width, part
        search, own = (
            page.locator(each).bounding_box() for each in ("#jump", ".top [aria-current]")
        )
        assert search is not None and own is not None
        assert own["x"] + own["width"] <= search["x"]
        assert not wrong


@needs_chromium
@pytest.mark.end_to_end
def test_an_open_page_says_when_it_no_longer_updates_itself(
    bucket: LocalStore, folder: Path, browser: Browser
) -> None:
    """It says so while the page server is gone, and no longer when it is back."""
    assert bucket.list(layout.VIEWS)
    with served(folder) as place, page_of(browser, place) as (page, _):
        port = int(place.rpartition(":")[2])
        page.goto("/")
        notice = page.locator("#not-live")
        expect(page.locator("#pulse")).to_have_class("pulse on", timeout=30_000)
        expect(notice).to_be_hidden()
        server = psutil.Process(_server_on(port))
        server.terminate()
        server.wait(20)
        expect(notice).to_be_visible(timeout=30_000)
        with served(folder, port=port):
            expect(notice).to_be_hidden(timeout=30_000)


@needs_chromium
@pytest.mark.end_to_end
@pytest.mark.parametrize("path", ["/", "/timeline?span=24h"])
def test_a_long_name_of_a_machine_shows_its_end(address: str, browser: Browser, path: str) -> None:
    """The number distinguishes machines of a pool; the beginning is cut off."""
    with page_of(browser, address) as (page, wrong):
        page.goto(path)
        name = page.locator("#main a.name").first
        expect(name).to_have_attribute("title", "h100-west-0-0", timeout=30_000)
        # In one step: the page renews itself each second.
        box, text = page.evaluate(
            "() => { const it = document.querySelector('#main a.name');"
            " it.firstElementChild.textContent = 'long-'.repeat(20) + '17-0';"
            " return [it, it.querySelector('bdi')].map(each => each.getBoundingClientRect()) }"
        )
        assert text["left"] < box["left"]
        assert text["right"] <= box["right"] + 1
        assert not wrong


@needs_chromium
@pytest.mark.prove
@pytest.mark.end_to_end
def test_all_text_is_there_without_a_script(address: str, browser: Browser) -> None:
    """Every page has the same words with scripts off, and its links and forms work."""
    with (
        page_of(browser, address, script=False) as (plain, _),
        page_of(browser, address) as (full, _),
    ):
        for path in PATHS:
            assert _words(plain, path) == _words(full, path), path
        plain.goto("/")
        plain.locator("input[name=search]").fill("train-0000000012")
        plain.locator(".filters button").click()
        assert "train-0000000012" in plain.inner_text("#jobs")
        plain.locator("#jobs a.id").first.click()
        assert "train-0000000012" in plain.inner_text("h1")
        plain.locator("#jump").fill("train-0000000003")
        plain.keyboard.press("Enter")
        expect(plain.locator("h1")).to_have_text("train-0000000003")
        plain.goto("/quota")
        plain.locator("#text").fill("[nonsense]\n")
        plain.get_by_role("button", name="Compare").click()
        assert "not a valid quota file" in plain.inner_text("main")
        plain.goto("/timeline?span=24h")
        before = plain.locator("main h2").inner_text()
        plain.get_by_role("link", name="zoom in").click()
        assert plain.locator("main h2").inner_text() != before


@needs_chromium
@pytest.mark.prove
@pytest.mark.end_to_end
def test_the_search_and_the_windows_of_a_log(
    bucket: LocalStore, address: str, browser: Browser
) -> None:
    """A long log is shown from its end, searched, and paged through."""
    prefix = layout.log("audio", "train-0000000001", 1, replica=0, host=0, process=0)
    name = next(path for path in _jobs(browser, address) if path.endswith("train-0000000001"))
    prefix = layout.log(name.split("/")[2], name.split("/")[3], 1, replica=0, host=0, process=0)
    at = 0
    for part in range(20):
        data = b"".join(b"line %d of %d\n" % (n, part) for n in range(4000))
        bucket.create(segment_key(prefix, at), data)
        at += len(data)
    with page_of(browser, address) as (page, wrong):
        page.goto(name)
        assert "line 3999 of 19" in page.inner_text("#log-text")
        page.get_by_role("link", name="← earlier").click()
        assert "line 3999 of 19" not in page.inner_text("#log-text")
        page.locator("input[name=find]").fill("line 77 of 3")
        page.locator("#log button").click()
        page.locator("pre.log a").first.click()
        assert page.inner_text("#log-text").startswith("line 77 of 3\n")
        assert not wrong


@pytest.mark.end_to_end
def test_pages_give_way_to_a_bastion_on_the_same_machine(bucket: LocalStore, folder: Path) -> None:
    """The server and the program that queries the record have a lower priority than others."""
    assert bucket.list(layout.VIEWS)
    own = psutil.Process().nice()
    with served(folder) as place:
        server = psutil.Process(_server_on(int(place.rpartition(":")[2])))

        def has_queried() -> bool:
            with urlopen(f"{place}/failures", timeout=20) as page:
                assert page.status == 200
            return bool(server.children())

        until(has_queried, "the record is queried")
        assert server.nice() == min(19, own + NICE)
        assert {each.nice() for each in server.children()} == {server.nice()}


@pytest.mark.prove
@pytest.mark.end_to_end
def test_a_hundred_followers_are_served_and_no_more(bucket: LocalStore, folder: Path) -> None:
    """Beyond the limit, a follower is told to return later; the pages are still served."""
    import http.client

    assert bucket.list(layout.VIEWS)
    with served(folder) as place:
        host = place.removeprefix("http://")
        open_ones = []
        for _ in range(100):
            line = http.client.HTTPConnection(host, timeout=20)
            line.request("GET", "/live")
            answer = line.getresponse()
            assert answer.status == 200
            open_ones.append((line, answer))
        refused = http.client.HTTPConnection(host, timeout=20)
        refused.request("GET", "/live")
        more = refused.getresponse()
        assert more.status == 503
        assert more.headers["retry-after"]
        with urlopen(f"{place}/", timeout=20) as page:
            assert page.status == 200
        for line, _ in open_ones:
            line.close()

        def is_free() -> bool:
            again = http.client.HTTPConnection(host, timeout=20)
            again.request("GET", "/live")
            status = again.getresponse().status
            again.close()
            return status == 200

        until(is_free, "a place is given back")


@pytest.mark.end_to_end
def test_a_connection_without_a_request_is_closed(address: str) -> None:
    """A client that vanished would otherwise hold one of the connections forever."""
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=60) as line:
        assert line.recv(1) == b""


@pytest.mark.prove
@pytest.mark.end_to_end
def test_the_demo_serves_its_page_until_it_is_interrupted(tmp_path: Path) -> None:
    """`bastion demo --web` names a page that shows the jobs; Ctrl-C ends everything."""
    import os
    import signal

    log = tmp_path / "demo.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [COMMAND, "demo", "--web", f"--root={tmp_path}/demo", "--color=never"],
            stdout=file,
            stderr=file,
            env=dict(os.environ, HOME=str(tmp_path), BROWSER="true"),
        )
    try:
        until(lambda: "Ctrl-C stops it" in log.read_text(), "the demo has ended", timeout_s=120)
        place = log.read_text().rpartition("the page is ")[2].partition(";")[0]

        def is_marked() -> bool:
            with urlopen(f"{place}timeline?span=1h", timeout=20) as page:
                return 'class="mark m-preempted"' in page.read().decode()

        until(is_marked, "the record was asked for the preemption")
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 0, log.read_text()
    finally:
        for child in (
            psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ()
        ):
            child.kill()
        process.kill()
    deadline = time.monotonic() + 20
    while alive_in(tmp_path / "demo") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not alive_in(tmp_path / "demo")


def _words(page: Page, path: str) -> list[str]:
    page.goto(path)
    expect(page.locator("[data-pending]")).to_have_count(0, timeout=30_000)
    text = page.inner_text("main")
    return [word for word in text.split() if word != "follow"]


def _jobs(browser: Browser, address: str) -> list[str]:
    with page_of(browser, address) as (page, _):
        page.goto("/")
        return [link.get_attribute("href") or "" for link in page.locator("#jobs a.id").all()]
