"""Two real bastions on one folder: one leads, the other stands by or exits."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bastion.records.keys import layout
from bastion.records.root import Root
from bastion.service.config.settings import LOCAL
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import folder_root
from tests.rigs.limits import killed

pytestmark = pytest.mark.end_to_end

PATIENCE_S = 1.25 * LOCAL.ttl_s
"""No test here has an upper time limit: on a busy machine everything may take long."""


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Provide bastions on a folder without pools."""
    with folder_root(tmp_path) as place:
        made = Programs(tmp_path, place)
        try:
            yield made
        finally:
            made.stop_everything()
            sys.stdout.write(made.served)  # shown when the test failed


def led_by(on: Programs, holder: str) -> bool:
    """Whether `holder` leads, according to root."""
    root = on.place.root()
    return root is not None and root.leader is not None and root.leader.holder == holder


def silence_s(on: Programs, holder: str) -> float:
    """Wait until `holder` leads; return for how long root did not change before, on our clock."""
    moved_at, last = time.monotonic(), on.place.root()
    assert last is not None
    while True:
        root = on.place.root()
        assert root is not None
        now = time.monotonic()
        if root.seq != last.seq:
            if _is_led(root, holder):
                return now - moved_at
            moved_at, last = now, root
        assert now - moved_at < 10 * PATIENCE_S, on.served
        time.sleep(0.01)


def _is_led(root: Root, holder: str) -> bool:
    return root.leader is not None and root.leader.holder == holder


def freeze(program: subprocess.Popen[bytes]) -> None:
    """Freeze it while it holds no file lock: others wait for the lock of root, never break it."""
    for _ in range(1000):
        program.send_signal(signal.SIGSTOP)
        until(lambda: psutil.Process(program.pid).status() == psutil.STATUS_STOPPED, "it stops")
        owners = [line.split()[-4] for line in Path("/proc/locks").read_text().splitlines()]
        if str(program.pid) not in owners:
            return
        program.send_signal(signal.SIGCONT)
    raise AssertionError("it never let go of the lock")


def test_a_standby_takes_over_and_the_old_leader_stands_by(programs: Programs) -> None:
    """A frozen leader is replaced after 1.25 leases; later it is fenced, waits and leads again."""
    on = programs
    north = on.serve("--standby", "--name=north")
    until(lambda: led_by(on, "north"), "north leads")
    south = on.serve("--standby", "--name=south")
    until(lambda: "waiting" in on.served, "south waits")

    freeze(north)
    found = on.place.store.read(layout.ROOT)
    assert found is not None
    until(lambda: led_by(on, "south"), "south leads")
    until(lambda: on.client.status().leader == "south", "south publishes")
    assert on.client.status().since > found.modified_at + PATIENCE_S - 0.1, "not the commit before"

    north.send_signal(signal.SIGCONT)
    until(lambda: "this one stops acting" in on.served, "north is fenced")
    root = on.place.root()
    assert root is not None
    assert _is_led(root, "south")
    assert root.epoch == 2

    south.send_signal(signal.SIGTERM)
    assert south.wait(timeout=30) == 0
    assert silence_s(on, "north") < PATIENCE_S, "a lead that was given up is taken at once"
    assert north.poll() is None


def test_a_fenced_leader_without_standby_exits(programs: Programs) -> None:
    """Without `--standby` a leader that was replaced exits with 1 and logs why."""
    on = programs
    north = on.serve("--name=north")
    until(lambda: led_by(on, "north"), "north leads")
    freeze(north)
    on.serve("--name=south")
    until(lambda: led_by(on, "south"), "south leads")
    north.send_signal(signal.SIGCONT)
    assert north.wait(timeout=30) == 1
    assert "another bastion took over" in on.served
    assert led_by(on, "south")


def test_a_dead_leader_is_replaced_at_once_on_its_own_host(programs: Programs) -> None:
    """After kill -9, neither a restart nor a standby on the same host waits for the lease."""
    on = programs
    north = on.serve("--name=north")
    until(lambda: led_by(on, "north"), "north leads")
    on.serve("--standby", "--name=south")
    until(lambda: "waiting" in on.served, "south waits")
    killed(north)
    assert silence_s(on, "south") < PATIENCE_S
    (south,) = (each for each in on.processes("--name=south"))
    south.kill()
    on.serve("--name=south")
    until(lambda: (on.place.root() or Root(epoch=0, seq=0, now=0, write_id="")).epoch == 3, "again")


def test_a_second_bastion_names_the_leader(programs: Programs) -> None:
    """Of two bastions on one root one leads; the other names it and exits."""
    on = programs
    first = on.serve()
    until(lambda: on.place.root() is not None, "one leads")
    second = subprocess.run(
        [*on.command, "serve", f"--machines_dir={on.machines}"],
        cwd=on.project,
        env=on.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert first.poll() is None
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=30) == 0
    assert second.returncode == 1
    assert f"process {first.pid}" in second.stderr
    assert "another bastion leads here" in second.stderr
    assert "--standby" in second.stderr
    assert second.stdout == ""
