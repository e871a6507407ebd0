"""Webhooks and real bastions: each notification arrives, and a hanging webhook delays nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion import Job, Launch, Notify, Process, Resources
from bastion.records.keys import layout
from tests.end_to_end.installed import QUOTA
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import folder_root
from tests.servers.webhook import Receiver, receiver

pytestmark = pytest.mark.end_to_end

CONFIG = """
[pools.local]
provider = "local"
count = 1
resources = {{ h100 = 8, cpu = 32 }}
[webhooks.team]
url = "{url}/team"
kind = "slack"
[webhooks.programs]
url = "{url}/programs"
[webhooks.stuck]
url = "{stuck}/x"
"""


@pytest.fixture
def there() -> Iterator[Receiver]:
    """Run a webhook that accepts every notification."""
    with receiver() as made:
        yield made


@pytest.fixture
def stuck() -> Iterator[Receiver]:
    """Run a webhook that never answers."""
    with receiver() as made:
        made.answers = ["hang"]
        yield made


@pytest.fixture
def on(tmp_path: Path, there: Receiver, stuck: Receiver) -> Iterator[Programs]:
    """Provide a folder of a bastion that is configured with both."""
    with folder_root(tmp_path) as place:
        place.store.create(layout.QUOTA, QUOTA.encode())
        config = CONFIG.format(url=there.url, stuck=stuck.url)
        place.store.create(layout.CONFIG, config.encode())
        made = Programs(tmp_path, place)
        try:
            yield made
        finally:
            made.stop_everything()
            sys.stdout.write(made.served)


def submit(on: Programs, name: str, *flags: str, script: str = "exit 0") -> str:
    """Submit a job by the command line; return its id."""
    words = ["launch", "--project_id=red", f"--name={name}", "--resources=h100=1", "-q", *flags]
    return on.run(*words, "--shell", "--", script).stdout.strip()


def test_a_delivery_that_is_not_committed_is_repeated(on: Programs, there: Receiver) -> None:
    """After kill -9 while the webhook answers, the next bastion sends it again with the same id."""
    served: list[subprocess.Popen[bytes]] = [on.serve()]

    def strike() -> None:
        if len(there.bodies) == 1:
            os.kill(served[0].pid, signal.SIGKILL)

    there.on_request = strike
    job = submit(on, "told", "--notify=team", script="exit 4")
    until(lambda: served[0].poll() is not None, "the bastion is dead")
    served.append(on.serve())
    until(lambda: len(there.bodies) == 2, "it is told again")
    assert there.ids == [f"{job}.1.ended.0"] * 2
    assert there.bodies[0] == there.bodies[1]
    assert there.bodies[0]["text"].startswith(f"*{job}* failed: exited with code 4")
    until(lambda: (root := on.place.root()) and not root.outbox, "it has left root")


def test_a_hanging_webhook_delays_nothing(on: Programs, there: Receiver, stuck: Receiver) -> None:
    """Jobs continue and other webhooks get notifications while one does not answer."""
    on.serve()
    first = submit(on, "first", "--notify=stuck", "--notify=team")
    until(lambda: stuck.bodies, "the stuck one is asked")
    process = Process(["true"], resources=Resources(h100=1))
    told = Notify("programs", on=["started", "ended"])
    wanted = Launch(
        name="second", project="red", jobs=[Job(name="second", processes=[process])], notify=[told]
    )
    (second,) = on.client.launch(wanted).jobs
    until(lambda: on.place.result("red", second), "a job ends meanwhile")
    until(lambda: len(there.bodies) == 3, "the others are told of both")
    ids = [f"{first}.1.ended.1", f"{second}.1.started.0", f"{second}.1.ended.0"]
    assert sorted(there.ids) == sorted(ids)
    (ended,) = (body for body in there.bodies if body.get("occasion") == "ended")
    assert (ended["id"], ended["state"], ended["code"]) == (ids[2], "succeeded", 0)
    assert there.paths.count("/programs") == 2
    assert stuck.ids == [f"{first}.1.ended.0"]


def test_mistakes_are_reported_at_once(on: Programs) -> None:
    """A name that is not configured, and an address of the private network."""
    on.serve()
    for notify, text in (
        ("teem", "config/bastion.toml has no webhook 'teem'; did you mean team?"),
        ("http://127.0.0.1:1/x", "127.0.0.1 is an address of the bastion's machine"),
    ):
        words = ["launch", "--project_id=red", f"--notify={notify}", "--", "true"]
        ran = on.run(*words, check=False)
        assert ran.returncode == 104
        assert text in ran.stderr
        foreseen = on.run(words[0], "--dry_run", *words[1:], check=False)
        assert foreseen.returncode == 104
        assert foreseen.stderr.startswith(f"it would be refused: notify: {text}")
    ran = on.run("launch", "--notify_on=ended", "--", "true", check=False)
    assert ran.returncode == 2
    assert "hint: add --notify=WEBHOOK" in ran.stderr
