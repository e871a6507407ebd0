"""
Containers of one docker engine, on this host or another one; each container is a machine.

* A container is found by its name and its labels. Its first process is the start-up script, which
  runs as long as its agent does; after it has ended, `create` starts the container again.
* A deleted machine is renamed and stopped. The stopped container reserves the name for an hour, so
  that it is not used again; then the container is removed.
* Devices are assigned by number: a label says which ones a container has, and no other container
  gets them while it exists. The devices of an engine belong to one bastion.

docker-py connects to the engine that `host` names, or otherwise to the one that docker's own
variables name. `ssh://` uses OpenSSH with the user's own configuration.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

from bastion.clock import Clock
from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.machine_name import parse_machine
from bastion.provider.containers.docker_request import (
    BUCKET,
    DEVICES,
    MACHINE,
    POOL,
    container_of,
    devices_of,
    devices_wanted,
    gone_at,
    name_of,
    words,
)
from bastion.provider.containers.engine import asked, client
from bastion.provider.port import Listed, State

PULL_S = 540.0
"""Longest pull of an image; the next try continues with what has been downloaded."""
_MAKING = threading.Lock()
"""Held while devices are chosen: pools of one engine may name the same devices."""
KEEP_GONE_S = 3600.0
_END_S = 10
# Source: docs.docker.com/reference/api/engine/version/v1.41, ContainerList.
_STATES: Mapping[str, State] = {
    "created": "stopped",
    "running": "running",
    "paused": "stopped",
    "restarting": "creating",
    "removing": "deleting",
    "exited": "stopped",
    "dead": "stopped",
}

_ENDED = ("exited", "created", "dead")
"""States in which nothing of a container is running."""

Script = Callable[[Pool, str], str]
"""Writes a pool's start-up script, given a shell command that prints a machine's name."""


class DockerProvider:
    """
    The containers of one pool, on one engine.

    Args:
        pool: Its option `host` names the engine.
        bucket: The bucket's own name.
        root_url: A folder is mounted into each container, at the same path.
        script: Writes the start-up script of a machine.
        clock: Its wall clock gives the age of what is gone.
        connect: Creates a client of the engine; called once, on the thread of the first call.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        bucket: str,
        root_url: str,
        script: Script,
        clock: Clock,
        connect: Callable[[str], Any] | None = None,
    ) -> None:
        self._pool = pool
        self._bucket = bucket
        self._root_url = root_url
        self._script = script
        self._clock = clock
        self._connect = connect or client
        self._opening = threading.Lock()
        self._opened: Any = None

    @property
    def vouches(self) -> bool:
        """See the port: an engine that answers knows its containers."""
        return True

    def list(self) -> tuple[Listed, ...]:
        """See the port; containers that have been gone for an hour are removed."""
        found = {}
        with self._asked(f"list pool {self._pool.name}") as engine:
            for said in self._containers(engine):
                listed = self._listed(said)
                deleted_at = _deleted_at(said) or 0.0
                if listed.state == "gone" and self._clock.wall() - deleted_at > KEEP_GONE_S:
                    engine.remove_container(said["Id"], v=True)
                else:
                    found[listed.name] = listed
        return tuple(found[name] for name in sorted(found))

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port; a container whose agent has ended is started again."""
        with self._asked(f"create {machines[0].name}") as engine:
            self._have_image(engine, pool)
            with _MAKING:
                shown = {said["Labels"][MACHINE]: said for said in self._containers(engine)}
                missing = [machine for machine in machines if machine.name not in shown]
                given = self._given_devices(engine, pool, hosts=len(missing))
                for machine, devices in zip(missing, given, strict=True):
                    shown[machine.name] = self._make(engine, machine, pool, devices)
            for said in (shown[machine.name] for machine in machines):
                if said["State"] == "paused" and _deleted_at(said) is None:
                    engine.unpause(said["Id"])
                elif self._listed(said).state == "stopped":
                    engine.start(said["Id"])

    def delete(self, name: str) -> None:
        """See the port: the container is renamed, which is irreversible, and stopped."""
        with self._asked(f"delete {name}") as engine:
            for said in self._containers(engine):
                if said["Labels"][MACHINE] != name:
                    continue
                if _deleted_at(said) is None:
                    gone = name_of(self._bucket, name, gone_at=self._clock.wall())
                    engine.rename(said["Id"], gone)
                if said["State"] == "paused":
                    engine.unpause(said["Id"])
                if said["State"] not in _ENDED:
                    engine.stop(said["Id"], timeout=_END_S)

    def _make(
        self, engine: Any, machine: Machine, pool: Pool, devices: tuple[str, ...]
    ) -> dict[str, Any]:
        body = container_of(
            pool,
            machine.name,
            bucket=self._bucket,
            root_url=self._root_url,
            script=self._script(pool, f"printf %s {machine.name}"),
            devices=devices,
            environ=os.environ,
        )
        made = engine.create_container_from_config(body, name_of(self._bucket, machine.name))
        return {"Id": made["Id"], "State": "created", "Names": [], "Labels": body["Labels"]}

    def _given_devices(self, engine: Any, pool: Pool, *, hosts: int) -> tuple[tuple[str, ...], ...]:
        """Return the devices of each new machine; other pools and buckets keep theirs."""
        wanted = devices_wanted(pool)
        if not wanted:
            return ((),) * hosts
        used = {
            device
            for said in engine.containers(all=True, filters={"label": [DEVICES]})
            if _deleted_at(said) is None or said["State"] not in _ENDED
            for device in words(said["Labels"][DEVICES])
        }
        free = [device for device in devices_of(pool) if device not in used]
        if len(free) < hosts * wanted:
            raise NoCapacityError(
                f"the engine has {len(free)} free devices of {', '.join(devices_of(pool))};"
                f" {hosts * wanted} are needed"
            )
        return tuple(tuple(free[at * wanted : (at + 1) * wanted]) for at in range(hosts))

    def _have_image(self, engine: Any, pool: Pool) -> None:
        from docker.errors import ImageNotFound

        try:
            engine.inspect_image(pool.image)
        except ImageNotFound:
            give_up_at = self._clock.monotonic() + PULL_S
            for said in engine.pull(pool.image, stream=True, decode=True):
                if "error" in said:
                    told = f"image: {pool.image}: {said['error']}"
                    raise ProviderRefusedError(told[:500]) from None
                if self._clock.monotonic() > give_up_at:
                    raise ProviderUnavailableError(
                        f"image {pool.image} was not pulled completely within {PULL_S:g} s",
                        hint="pull it on the engine's host, or give the pool a longer boot",
                    ) from None

    def _containers(self, engine: Any) -> Iterator[dict[str, Any]]:
        """Yield every container of the pool, those that are gone first."""
        wanted = [f"{BUCKET}={self._bucket}", f"{POOL}={self._pool.name}"]
        found = [
            said
            for said in engine.containers(all=True, filters={"label": wanted})
            if parse_machine(said["Labels"].get(MACHINE, ""), self._pool.name) is not None
        ]
        yield from sorted(found, key=lambda said: _deleted_at(said) is None)

    def _listed(self, said: Mapping[str, Any]) -> Listed:
        state = _STATES.get(said["State"], "stopped")
        if _deleted_at(said) is not None:
            state = "gone" if said["State"] in _ENDED else "deleting"
        created_at = datetime.fromtimestamp(said.get("Created", 0), UTC)
        return Listed(
            name=said["Labels"][MACHINE],
            pool=self._pool.name,
            state=state,
            text=said.get("Status", "") if state == "stopped" else "",
            created_at=created_at.isoformat(),
        )

    def _asked(self, what: str) -> AbstractContextManager[Any]:
        return asked(self._open(), what)  # opening also checks whether docker-py is installed

    def _open(self) -> Any:
        with self._opening:
            if self._opened is None:
                self._opened = self._connect(self._pool.options.get("host", ""))
            return self._opened


def _deleted_at(said: Mapping[str, Any]) -> float | None:
    return next(filter(None, map(gone_at, said.get("Names") or ())), None)
