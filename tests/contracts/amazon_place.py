"""Amazon's machines, created by an EC2 on loopback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bastion.catalog import lookup
from bastion.provider.aws.batch import machine_of
from bastion.provider.aws.ec2 import Ec2Provider
from tests.contracts.provider_place import POOL, STEP_S, Place, World
from tests.servers.aws.ec2 import PROFILE, ZONES, Ec2World, Refusal, connect_to, ec2_server

GPUS = replace(
    POOL,
    provider="ec2",
    resources=lookup("p5.48xlarge").host,
    instance_type="p5.48xlarge",
    identity=PROFILE,
    zones=ZONES,
)
NVIDIA = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20260101"


@contextlib.contextmanager
def ec2_place(folder: Path) -> Iterator[Place]:
    """Provide instances of EC2."""
    with ec2_server() as server:
        server.image(NVIDIA)

        def opened(*zones: str) -> Ec2Provider:
            return Ec2Provider(
                replace(GPUS, zones=zones),
                bucket="0a1b2c3d4e5f",
                script=lambda pool, name: f"#!/bin/sh\n{name}\n",
                connect=connect_to(server),
            )

        provider = opened(*ZONES)

        def stock(left: int | None) -> None:
            server.stock = {} if left is None else {ZONES[0]: left}

        def lose(is_made: bool) -> None:
            if is_made:
                server.lost = 1
            else:
                server.dropped = 1

        def instance(name: str) -> Any:
            for each in server.alive():
                tags = {tag["key"]: tag["value"] for tag in each.get_tags()}
                if machine_of(tags, int(each.ami_launch_index)) == name:
                    return each
            raise AssertionError(f"there is no instance of {name}")

        def stop(name: str) -> None:
            server.stop(instance(name))

        yield Place(
            provider=provider,
            let_time_pass=server.tick,
            kill_agent=stop,
            zones=(ZONES[0], ZONES[1]),
            pool=GPUS,
            world=World(
                made=lambda: len(server.instances()),
                stock=stock,
                limit=lambda is_on: _refuse(server, "RunInstances", _LIMIT, is_on),
                refuse=lambda is_on: _refuse(server, "RunInstances", _FORBIDDEN, is_on),
                pace=lambda is_on: _refuse(server, "*", _TOO_MANY, is_on),
                cut=lambda is_on: _refuse(server, "*", _AWAY, is_on),
                lose=lose,
                keep_deleted=lambda is_on: setattr(server, "stays", is_on),
                lag=lambda lag_s: setattr(server, "lag", int(lag_s / STEP_S)),
                expire=lambda is_on: _refuse(server, "*", _OLD, is_on),
                vanish=lambda name: server.interrupt(instance(name)),
                moved=lambda: opened("us-west-2a", ZONES[0]),
            ),
        )


_LIMIT = Refusal("VcpuLimitExceeded", "You have requested more vCPU capacity than your limit of 0")
_FORBIDDEN = Refusal("UnauthorizedOperation", "You are not authorized", status=403)
_TOO_MANY = Refusal("RequestLimitExceeded", "Request limit exceeded.", status=503)
_OLD = Refusal("RequestExpired", "Request has expired.")
_AWAY = Refusal("Unavailable", "The server is overloaded", status=503)


def _refuse(server: Ec2World, action: str, refusal: Refusal, is_on: bool) -> None:
    server.refusals.clear()
    if is_on:
        server.refusals[action] = replace(refusal)
