"""Real programs whose store refuses everything for a while, after it has answered."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from bastion.records.keys import layout
from bastion.store.gcs import GcsStore
from tests.end_to_end.programs import DEADLINE_S, Programs, until
from tests.end_to_end.roots import Place, gcs_root
from tests.servers.fault_proxy import Fault, FaultProxy
from tests.servers.gcs import GcsServer
from tests.servers.gcs.answers import ApiError
from tests.servers.gcs.api import Request

pytestmark = pytest.mark.end_to_end

QUOTA = b"""
[toml-schema]
version = "1"
[total_resources]
h100 = 8
[project_membership]
blue = ["alice"]
[project_resources.blue]
h100 = 1.0
"""
CONFIG = b"""
[pools.here]
provider = "local"
resources = { h100 = 8 }
max_machines = 1
"""


@dataclass
class Gate:
    """A switch that makes the store refuse one program, with counts of requests and refusals."""

    is_shut: bool = False
    asked: int = 0
    refused: int = 0

    def __call__(self) -> Fault:
        """See `FaultProxy`."""
        self.asked += 1
        self.refused += self.is_shut
        return Fault.FORBIDDEN if self.is_shut else Fault.NONE


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Provide a bucket with a quota file."""
    with gcs_root(tmp_path) as made:
        made.store.create(layout.QUOTA, QUOTA)
        yield made


@pytest.fixture
def programs(tmp_path: Path, place: Place) -> Iterator[Programs]:
    """Provide the programs of that bucket."""
    made = Programs(tmp_path, place)
    try:
        yield made
    finally:
        made.stop_everything()
        sys.stdout.write(made.served)  # shown when the test failed


def test_refusals_end_no_program_that_had_access_before(programs: Programs, place: Place) -> None:
    """Leader, standby, `wait` and `logs -f` survive a store that answers 403 to every request."""
    on, gates = programs, [Gate() for _ in range(4)]
    port = int(place.env["STORAGE_EMULATOR_HOST"].rpartition(":")[2])
    started: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        ways = [
            {"STORAGE_EMULATOR_HOST": stack.enter_context(FaultProxy(port, gate)).url}
            for gate in gates
        ]
        started.append(on.serve("--standby", "--name=north", env=ways[0]))
        until(lambda: "leads epoch 1" in on.served, "north leads")
        started.append(on.serve("--standby", "--name=south", env=ways[1]))
        until(lambda: "waiting" in on.served, "south waits")
        job = on.run("launch", "--hold", "--resources=h100=1", "-q", "--", "true").stdout.strip()
        for words, way in ((("wait", job), ways[2]), (("logs", "-f", job), ways[3])):
            command = [*on.command, *words]
            stack.enter_context(
                each := subprocess.Popen(
                    command, cwd=on.project, env={**on.env, **way}, stderr=subprocess.DEVNULL
                )
            )
            stack.callback(each.kill)
            started.append(each)
        until(lambda: all(gate.asked > 8 for gate in gates), "each was answered")
        for gate in gates:
            gate.is_shut = True
        until(lambda: all(gate.refused > 8 for gate in gates), "each is refused")
        assert [each.poll() for each in started] == [None] * 4
        for gate in gates:
            gate.is_shut = False
        on.run("cancel", job)
        assert started[2].wait(timeout=DEADLINE_S) == 101
        assert started[3].wait(timeout=DEADLINE_S) == 0
        assert [each.poll() for each in started[:2]] == [None] * 2
        on.stop_everything()


@pytest.mark.parametrize("status", [403, 503])
def test_a_leader_that_cannot_write_root_says_why(tmp_path: Path, status: int) -> None:
    """Its log is in the bucket, and `bastion status` shows it; its job continues."""
    refusal = ApiError(status, "forbidden" if status == 403 else "backendError", "not today")
    refuses = [False]

    def fault(request: Request) -> ApiError | None:
        is_root = request.query.get("name", "").endswith(layout.ROOT)
        return refusal if refuses[0] and is_root else None

    with GcsServer("bucket", fault=fault) as server:
        place = Place(
            url="gs://bucket/root",
            env={"STORAGE_EMULATOR_HOST": server.url},
            store=GcsStore("bucket", "root", credentials=None, endpoint=server.url),
        )
        place.store.create(layout.QUOTA, QUOTA)
        place.store.create(layout.CONFIG, CONFIG)
        on = Programs(tmp_path, place)
        try:
            on.serve("--name=north")
            job = on.run("launch", "--hold", "--resources=h100=1", "-q", "--", "true").stdout
            refuses[0] = True
            why = "problem: north logged at "
            until(lambda: why in on.run("status").stderr, "status shows the log")
            (line,) = [each for each in on.run("status").stderr.splitlines() if why in each]
            assert "store: " in line
            assert "not today" in line
            assert line in on.run("doctor", check=False).stderr
            assert on.served.count("not today") == 1
            refuses[0] = False
            on.run("cancel", job.strip())
            until(lambda: "store: works again after" in on.served, "the log shows the end")
        finally:
            on.stop_everything()
            sys.stdout.write(on.served)  # shown when the test failed
