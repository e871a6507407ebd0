"""An admin drains machines and waits for them."""

from __future__ import annotations

from bastion.client import Client
from bastion.records.keys import layout
from bastion.records.requests.machine_request import DrainRequest
from tests.rigs.scripted_bastion import NOW, ScriptedBastion, publish, world


def machine(name: str, **fields: object) -> dict[str, object]:
    """Return a row of the view of machines."""
    return {"name": name, "pool": "gpu", "phase": "ready", "draining": True, **fields}


def test_a_drain_is_waited_for_until_each_machine_is_empty() -> None:
    """A view from before the drain is ignored; then each machine's result is reported in time."""
    store, clock = world()
    bastion = ScriptedBastion(store, clock)
    views = [
        (NOW - 5.0, [machine("gpu-1-0", draining=False), machine("gpu-1-1", draining=False)]),
        (NOW + 5.0, [machine("gpu-1-0", jobs=["train-0123456789"]), machine("gpu-1-1")]),
        (NOW + 5.0, [machine("gpu-1-0", drained_at=NOW), machine("gpu-1-1")]),
        (NOW + 5.0, [machine("gpu-1-0", drained_at=NOW)]),
    ]

    def publish_next() -> None:
        if bastion.taken and views:
            now, rows = views.pop(0)
            publish(store, "pool", {"now": now, "machines": rows})

    clock.on_sleep.append(publish_next)
    client = Client("memory://", user="root", store=store, clock=clock)
    drain = client.operator.drain("gpu-1-0", "gpu-1-1", reason="kernel", deadline="10m")
    seen: list[tuple[str, ...]] = []
    became = dict(drain.over(lambda left: seen.extend(each.jobs for each in left)))
    assert became == {"gpu-1-0": "drained", "gpu-1-1": "gone"}
    assert ("train-0123456789",) in seen
    ((key, body),) = bastion.taken
    assert key.startswith(f"{layout.ADMINS}root/")
    wanted = DrainRequest(machines=("gpu-1-0", "gpu-1-1"), reason="kernel", deadline_s=600.0)
    assert body == wanted


def test_a_drain_that_is_taken_back_is_told() -> None:
    """Another admin uncordons the machine: the wait ends and says so."""
    store, clock = world()
    ScriptedBastion(store, clock)
    publish(store, "pool", {"now": NOW + 5.0, "machines": [machine("m", draining=False)]})
    client = Client("memory://", user="root", store=store, clock=clock)
    assert dict(client.operator.drain("m").over()) == {"m": "uncordoned"}
