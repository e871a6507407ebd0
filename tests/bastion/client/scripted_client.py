"""A client of a bucket that a scripted bastion serves."""

from __future__ import annotations

from typing import Any

from bastion.client import Client
from bastion.records.requests.launch_request import LaunchRequest
from bastion.spec import Job, Launch, Process
from bastion.store.memory import MemoryStore
from tests.rigs.scripted_bastion import (
    Clock,
    ScriptedBastion,
    world,
)

JOB = "train-0123456789"


def client_of(user: str = "ada") -> tuple[Client, MemoryStore, Clock, ScriptedBastion]:
    """Return a client of a fresh bucket, which a scripted bastion serves."""
    store, clock = world()
    bastion = ScriptedBastion(store, clock)
    return Client("memory:", user=user, store=store, clock=clock), store, clock, bastion


def launch_of(*, name: str = "train", **job: Any) -> Launch:
    """Return a launch of one small job."""
    fields: dict[str, Any] = {"name": "main", "processes": (Process(["true"]),)} | job
    return Launch(name=name, jobs=(Job(**fields),))


def taken_launch(bastion: ScriptedBastion) -> Launch:
    """Return the launch that was absorbed last."""
    body = bastion.taken[-1][1]
    assert isinstance(body, LaunchRequest)
    return body.launch
