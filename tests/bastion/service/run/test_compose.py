"""From settings to a bastion: where its files are, and a store that is away at the start."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from urllib.request import urlopen

import pytest

from bastion.client import Client
from bastion.clock import VirtualClock
from bastion.errors import (
    NotFoundError,
    SpecError,
    StoreError,
    StoreFullError,
    StoreRefusedError,
)
from bastion.metrics.meter import NO_METER
from bastion.service.config.settings import LOCAL, ServeSettings
from bastion.service.journal import Journal
from bastion.service.run.compose import (
    _admin_files,
    _candidate,
    _meter,
    _probe,
    _quota_place,
    compose,
)
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import Written
from bastion.store.s3 import S3Store
from tests.servers.s3 import credentials

SETTINGS = ServeSettings(root_url="memory:", name="b", machines_dir=Path("/nowhere"), pace=LOCAL)


def test_the_quota_file_may_lie_elsewhere(tmp_path: Path) -> None:
    """A URL names folder and file, including settings of the store."""
    ours = MemoryStore(lambda: 0.0)
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "my quota.toml").write_text("x")
    url = f"file://{folder}/my%20quota.toml"
    store, key = _quota_place(replace(SETTINGS, quota_url=url), ours)
    found = store.read(key)
    assert found is not None
    assert found.data == b"x"
    with credentials():
        url = "s3://bucket/private/quota.toml?endpoint_url=http://127.0.0.1:9"
        store, key = _quota_place(replace(SETTINGS, quota_url=url), ours)
    assert isinstance(store, S3Store)
    assert (store._prefix, key) == ("private/", "quota.toml")
    assert _quota_place(SETTINGS, ours)[0] is ours


def test_the_quota_file_may_be_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is a local file, relative to the folder where the bastion is started."""
    (tmp_path / "quota.toml").write_text("x")
    monkeypatch.chdir(tmp_path)
    for path in ("quota.toml", f"{tmp_path}/quota.toml"):
        store, key = _quota_place(replace(SETTINGS, quota_url=path), MemoryStore(lambda: 0.0))
        found = store.read(key)
        assert found is not None
        assert found.data == b"x"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("gs://bucket/", "names no file"),
        ("gs://bucket", "names no file"),
        ("ftp://x/quota.toml", "unknown, must be one of file:///folder"),
        ("gs:/quota.toml", "must name a bucket"),
        ("/", "names no file"),
        ("/usr", "is a folder"),
    ],
)
def test_a_quota_file_that_is_no_place_names_its_flag(url: str, said: str) -> None:
    """The error has flag, value and what is wrong; the hint says what to write."""
    with pytest.raises(SpecError, match=said) as caught:
        _quota_place(replace(SETTINGS, quota_url=url), MemoryStore(lambda: 0.0))
    assert str(caught.value).startswith(f"--quota: {url!r}")
    assert caught.value.hint == "write a path, or a URL as gs://PRIVATE/quota.toml"


def test_a_quota_file_that_is_not_there_is_told_with_its_flag_and_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may appear later, so a bastion continues; for a missing folder, it says which."""
    monkeypatch.chdir(tmp_path)
    ours = MemoryStore(lambda: 0.0)
    for said, told in (
        ("quota.toml", f"there is none at {tmp_path}/quota.toml (serve --quota)"),
        (f"file://{tmp_path}/my%20x", f"there is none at {tmp_path}/my x (serve --quota)"),
    ):
        settings = replace(SETTINGS, quota_url=said)
        files = _admin_files(settings, ours, VirtualClock(), _quota_place(settings, ours))
        files.refresh()
        assert files.quota_problem == told
    settings = replace(SETTINGS, quota_url="no/quota.toml")
    files = _admin_files(settings, ours, VirtualClock(), _quota_place(settings, ours))
    with pytest.raises(StoreError) as caught:
        files.refresh()
    assert str(caught.value) == (
        f"{tmp_path}/no/quota.toml (serve --quota): cannot be checked: '{tmp_path}/no' is out of"
        " reach: No such file or directory"
    )


def test_a_bastion_that_begins_in_an_outage_waits() -> None:
    """A store that does not answer is probed again until it does."""
    clock = VirtualClock()
    left = [Fault.BEFORE] * 7
    faulty = FaultyStore(MemoryStore(clock.wall), lambda *_: left.pop() if left else None)
    _probe(faulty, clock, Journal("b", clock, out=None), lambda: False, pause_s=0.0)
    assert not left
    assert clock.monotonic() > VirtualClock().monotonic()


def test_a_bastion_that_begins_in_an_outage_can_be_stopped() -> None:
    """It checks for a stop between two tries."""
    clock = VirtualClock()
    tries: list[str] = []

    def fail(*asked: str) -> Fault:
        tries.append(asked[0])
        return Fault.BEFORE

    journal = Journal("b", clock, out=None)
    _probe(
        FaultyStore(MemoryStore(clock.wall), fail),
        clock,
        journal,
        lambda: len(tries) > 3,
        pause_s=0.0,
    )
    assert len(tries) > 3


def test_a_bastion_that_begins_on_a_full_disk_waits() -> None:
    """It says what is wrong once per minute, and continues once there is room."""
    left = [StoreFullError(f"state/probe/{n}: the disk is full") for n in range(90)]

    class Full(MemoryStore):
        def create(self, key: str, data: bytes) -> Written:
            if left:
                raise left.pop()
            return super().create(key, data)

    clock, said = VirtualClock(), StringIO()
    _probe(Full(clock.wall), clock, Journal("b", clock, out=said), lambda: False, pause_s=0.0)
    assert not left
    assert said.getvalue().count("store: state/probe/89: the disk is full") == 2
    assert said.getvalue().count("the disk is full") == 2


class Refusing(MemoryStore):
    """Refuses the first `left` writes."""

    left = 2

    def create(self, key: str, data: bytes) -> Written:
        """Write `data` once no refusals are left."""
        if self.left:
            self.left -= 1
            raise StoreRefusedError("there is no bucket")
        return super().create(key, data)


def test_a_store_that_refuses_ends_it() -> None:
    """A bucket that does not exist is an error within seconds."""
    clock = VirtualClock()
    store = Refusing(clock.wall)
    store.left = 3
    begun = clock.monotonic()
    with pytest.raises(StoreRefusedError, match="no bucket"):
        _probe(store, clock, Journal("b", clock, out=None), lambda: False, pause_s=0.0)
    assert clock.monotonic() - begun <= 5.0


def test_a_refusal_of_a_moment_does_not_end_it() -> None:
    """Rights that were just granted are in force everywhere after a moment; nothing is printed."""
    clock, said = VirtualClock(), StringIO()
    _probe(Refusing(clock.wall), clock, Journal("b", clock, out=said), lambda: False, pause_s=0.0)
    assert said.getvalue() == ""


def test_a_broken_port_for_metrics_never_ends_it() -> None:
    """A port in use or an unavailable address is a warning; the bastion continues."""
    said = StringIO()
    journal = Journal("b", VirtualClock(), out=said)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for more in ({"metrics_port": port}, {"metrics_port": 0, "metrics_host": "192.0.2.1"}):
            settings = replace(SETTINGS, **more)
            assert _meter(settings, journal) is NO_METER
            service = compose(settings, is_stopping=lambda: False, nonce=lambda: "n")
            assert service.once() == 0
    assert said.getvalue().count("warning: no metrics: port") == 2


def test_a_bastion_answers_prometheus() -> None:
    """The metrics of a bastion with a metrics port are available there."""
    said = StringIO()
    meter = _meter(replace(SETTINGS, metrics_port=0), Journal("b", VirtualClock(), out=said))
    meter.asked("swap", 0.1, "ok")
    meter.committed([], {})
    (address,) = re.findall(r"http://127\.0\.0\.1:\d+/metrics", said.getvalue())
    with urlopen(address, timeout=20) as answer:
        text = answer.read().decode()
    assert 'bastion_store_seconds_count{operation="swap",outcome="ok"} 1.0' in text
    assert "bastion_commits_total 1.0" in text


def test_status_tells_of_a_record_that_nothing_compacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without DuckDB the bastion continues, warns once, and always says so in `status`."""
    monkeypatch.setitem(sys.modules, "duckdb", None)  # as if it is not installed
    settings = replace(SETTINGS, root_url=tmp_path.as_uri())
    told: list[tuple[str, ...]] = [()]

    def is_stopping() -> bool:
        with suppress(NotFoundError):  # before the first view
            told.append(Client(tmp_path.as_uri(), user="ada").status().problems)
        return bool(told[-1]) or len(told) > 500

    compose(settings, is_stopping=is_stopping, nonce=lambda: "n").run()
    (problem,) = told[-1]
    assert problem.startswith("history: DuckDB is not installed")
    assert "bastion-orchestrator[history]" in problem


def test_a_bucket_that_is_away_is_not_made_anew(tmp_path: Path) -> None:
    """A folder is created for a new bucket, but not where an older bucket has machines."""
    root, machines = tmp_path / "root", tmp_path / "machines"
    settings = replace(SETTINGS, root_url=f"file://{root}", machines_dir=machines)

    def begin() -> None:
        asked = iter([False, True])
        compose(settings, is_stopping=lambda: next(asked, True), nonce=lambda: "n")

    (machines / "gpu" / "gpu-1-0").mkdir(parents=True)
    (machines / "gpu" / "gpu-1-0" / "machine").write_text("gpu zone")
    begin()
    assert not root.exists()
    shutil.rmtree(machines)
    begin()
    assert root.is_dir()


IN_A_CONTAINER = """
from bastion.service.config.settings import LOCAL, ServeSettings
from bastion.service.run.compose import _candidate
settings = ServeSettings(root_url="memory:", name="b", machines_dir="", pace=LOCAL)
print(_candidate(settings).boot)
"""


def test_a_bastion_in_a_container_judges_no_process_outside() -> None:
    """It sees none of them: two with one host name would each consider the other dead."""
    arguments = ["unshare", "-r", "--pid", "--fork", sys.executable, "-c", IN_A_CONTAINER]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if "unshare" in done.stderr:
        pytest.skip("user namespaces are forbidden here")
    assert done.returncode == 0, done.stderr
    here, again = _candidate(SETTINGS).boot, _candidate(SETTINGS).boot
    assert here == again
    assert done.stdout.strip() != here
    assert done.stdout.split()[0] == here.split()[0]
