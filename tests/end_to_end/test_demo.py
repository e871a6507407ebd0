"""`bastion demo`: everything, with real processes, in one command."""

from __future__ import annotations

import html
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest

import launch
from bastion.client import Client
from tests.end_to_end.programs import alive_in, until

ROOT = Path(launch.__file__).parents[1]


@pytest.mark.end_to_end
def test_the_demo_succeeds_and_leaves_nothing_running(tmp_path: Path) -> None:
    """
    A share is lent, reclaimed after notice and checkpoint, and lent again; the bucket stays.

    Exit code 0 means that every check of the demo passed; its output must show each stage.
    """
    folder = tmp_path / "demo"
    ran = subprocess.run(
        [sys.executable, "-m", "launch.cli", "demo", f"--root={folder}", "--color=never"],
        env=dict(os.environ, PYTHONPATH=str(ROOT), HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr + (folder / "bastion.log").read_text()
    for shown in (
        "$ bastion why fourth: ",
        "extra prints: told to stop: saved step",
        "extra prints: resumed after step",
        "fourth   failed     bastion wait exits 3",
        "bastion web --open --root=file://",
        "nothing was lost",
    ):
        assert shown in ran.stdout
    assert not alive_in(folder)
    listed = subprocess.run(
        [sys.executable, "-m", "launch.cli", "list", "--all", "-q", f"--root={folder}/bucket"],
        env=dict(os.environ, PYTHONPATH=str(ROOT), HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(listed.stdout.split()) == 4


@pytest.mark.prove
@pytest.mark.end_to_end
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_with_a_page_goes_on_until_it_is_ended(
    tmp_path: Path, ending: signal.Signals
) -> None:
    """After the scenario jobs run and wait, devices have a chart; Ctrl-C leaves no process."""
    folder, log = tmp_path / "demo", tmp_path / "demo.log"
    with log.open("wb") as file:
        demo = subprocess.Popen(
            [sys.executable, "-m", "launch.cli", "demo", "--web", f"--root={folder}"],
            env=dict(os.environ, PYTHONPATH=str(ROOT), HOME=str(tmp_path), BROWSER="true"),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        until(lambda: "Ctrl-C stops it" in log.read_text(), "the play ends", timeout_s=90)
        (address,) = set(re.findall(r"http://[^;\s]+", log.read_text()))
        client = Client((folder / "bucket").as_uri(), user="ada")

        def is_alive() -> bool:
            states = Counter(job.state for job in client.jobs())
            return states["running"] >= 2 and states["queued"] >= 1

        until(is_alive, "jobs run and wait", timeout_s=60)
        page = fetched(address)
        assert "no active job" not in page
        until(lambda: any(charted(address, client)), "a chart of devices", timeout_s=150)
        assert is_alive()
        assert "%" in top_of(folder, tmp_path)
    finally:
        demo.send_signal(ending)
        demo.send_signal(ending)
        assert demo.wait(60) == 0, log.read_text()
    assert not alive_in(folder)


def fetched(address: str) -> str:
    """Return the body at an address of the pages."""
    with urlopen(address, timeout=20) as answer:
        return str(answer.read().decode())


def charted(address: str, client: Client) -> Iterator[bool]:
    """Yield whether the page of each running job has a chart of used devices."""
    for job in client.jobs(states=["running"]):
        page = fetched(f"{address.rstrip('/')}/jobs/{job.project}/{job.id}")
        found = re.search(r'class="chart" src="([^"]+/use/devices[^"]*)"', page)
        source = urljoin(address, html.unescape(found[1])) if found else ""
        yield bool(source) and "<svg" in fetched(source)


def top_of(folder: Path, home: Path) -> str:
    """Return the output of `bastion top`."""
    done = subprocess.run(
        [sys.executable, "-m", "launch.cli", "top", f"--root={folder}/bucket"],
        env=dict(os.environ, PYTHONPATH=str(ROOT), HOME=str(home)),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
