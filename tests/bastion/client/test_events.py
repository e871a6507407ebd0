"""Events in Python: of some jobs, and live."""

from __future__ import annotations

import json

from bastion.records.keys import layout
from tests.bastion.client.scripted_client import JOB, client_of
from tests.rigs.scripted_bastion import NOW, end, publish, put, row


def test_events_are_followed_until_the_job_has_ended() -> None:
    """New events appear once and in order, up to those of its end."""
    client, store, clock, _ = client_of()
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    happened: list[dict[str, object]] = []

    def happen() -> None:
        number = len(happened)
        happened.append({"n": number, "at": NOW + number, "job": JOB, "what": f"event-{number}"})
        put(store, layout.ROOT, json.dumps({"events": happened[-2:]}).encode())
        if number == 4:
            publish(store, "queue", {"jobs": []})
            end(store, JOB)

    happen()
    clock.on_sleep.append(lambda: happen() if len(happened) < 5 else None)
    seen = [event.what for event in client.follow_events("train")]
    assert seen == [f"event-{n}" for n in range(5)]
