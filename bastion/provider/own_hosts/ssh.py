"""
Machines that are your own hosts, reached by OpenSSH.

Each host is a zone and holds one machine. A program of this same build,
`bastion.provider.own_hosts.remote`, does the work there. It is installed on the host if it is
missing:

    <folder>/builds/<digest>/          bastion, bundler and quota
    <folder>/python/<digest>/          their Python with its packages, unless the pool names one
    <folder>/<bucket>/<machine>/       see `bastion.provider.local`

A host that does not answer does not prove that its machine is gone. Such a machine is omitted from
a list, and only the expired permit of its keeper proves that nothing runs there.

Names of hosts are those of the user's own OpenSSH configuration, with its jump hosts and keys. A
host whose key is unknown is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import get_args

from bastion.errors import NoCapacityError
from bastion.machine import Machine, Pool
from bastion.machine_name import parse_machine
from bastion.provider.own_hosts.calls import Hosts, UnreachedError
from bastion.provider.port import Listed, State

FOLDER = ".bastion"
"""On a host, relative to the home of the login user."""


class SshProvider:
    """
    Machines on the hosts of one pool.

    Args:
        root_url: The bucket that their agents serve; every host must reach it.
        pool: Its zones are the hosts. Hosts that left the pool are listed as long as it names them,
            and get no new machine: `create` gets the pool as it is configured.
        bucket: The bucket's own name, which separates its machines from another's.
        build: The digest of this build of Bastion.
        ssh: The command that connects; the host and a command line for its shell follow.
    """

    def __init__(
        self,
        root_url: str,
        pool: Pool,
        *,
        bucket: str,
        build: str,
        ssh: Sequence[str] = ("ssh",),
    ) -> None:
        self._pool = pool
        about = {
            "folder": pool.options.get("folder", FOLDER),
            "bucket": bucket,
            "root": root_url,
            "build": build,
            "keep_work_s": pool.keep_work_s,
            "run_as": pool.run_as,
            "permit_s": pool.permit_s,
            "begin": _begin(pool),
        }
        config = pool.options.get("ssh_config", "")
        python = pool.options.get("python", "")
        self._hosts = Hosts(about, python=python, ssh=(*ssh, *(("-F", config) if config else ())))

        self._unreached: dict[str, str] = {}
        self._doubtful: set[str] = set()
        """Machines that an earlier call may have created; the outcome is unknown."""

    def list(self) -> tuple[Listed, ...]:
        """See the port; hosts that do not answer are omitted, unless none answers."""
        answers, errors = self._hosts.ask(self._pool.zones, {"do": "list"})
        self._unreached = {host: error.message for host, error in errors.items()}
        if errors and not answers:
            raise next(iter(errors.values()))
        found = []
        for host, answer in answers.items():
            machines = answer.get("machines")
            for each in machines if isinstance(machines, list) else ():
                found.append(self._listed(host, each if isinstance(each, dict) else {}))
        return tuple(listed for listed in found if listed is not None)

    def unreached(self) -> Mapping[str, str]:
        """See the port."""
        return self._unreached

    @property
    def vouches(self) -> bool:
        """See the port: a host that does not answer may still run jobs."""
        return False

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """
        See the port; a host that holds another machine has no capacity.

        Neither has one that was not reached, unless an earlier call may have created the machine
        there.
        """
        for machine in machines:
            self._create(machine, pool)

    def _create(self, machine: Machine, pool: Pool) -> None:
        host = machine.zone
        if host not in pool.zones:
            raise NoCapacityError(f"pool {pool.name} has no host {host!r} any more")
        wanted = {
            "do": "create",
            "machine": machine.name,
            "pool": pool.name,
            "zone": host,
            "resources": dict(pool.resources.items()),
            "labels": dict(pool.labels),
        }
        answers, errors = self._hosts.ask((host,), wanted)
        if isinstance(errors.get(host), UnreachedError) and machine.name not in self._doubtful:
            raise NoCapacityError(errors[host].message, is_away=True)
        if errors:
            self._doubtful.add(machine.name)
            raise errors[host]
        busy = answers[host].get("busy")
        if busy:
            owner = str(answers[host].get("owner", "it"))[:500]
            raise NoCapacityError(f"host {host} still holds machine {str(busy)[:100]} of {owner}")

    def delete(self, name: str) -> None:
        """See the port; every host is called, because no record says which one has it."""
        answers, errors = self._hosts.ask(self._pool.zones, {"do": "delete", "machine": name})
        is_known = any(answer.get("known") is True for answer in answers.values())
        if errors and not is_known:
            raise next(iter(errors.values()))

    def remove(self, host: str) -> str:
        """
        Remove everything of ours from `host`; return why it is kept, or empty.

        A host that still holds a machine, of this bucket or of another, keeps everything.

        Raises:
            ProviderUnavailableError: It cannot be reached, or its current contents are unknown.
        """
        return self._hosts.remove(host)

    def _listed(self, host: str, said: Mapping[str, object]) -> Listed | None:
        """Return one machine from a host's answer; None if it is not of this pool."""
        name = str(said.get("name"))
        state = next((each for each in get_args(State) if each == said.get("state")), None)
        if state is None or parse_machine(name, self._pool.name) is None:
            return None
        stuck = str(said.get("stuck", ""))[:500]
        return Listed(name=name, pool=self._pool.name, state=state, zone=host, stuck=stuck)


def _begin(pool: Pool) -> str:
    """Return what agents do and check before their greeting, as `bastion.agent.begin` reads it."""
    health = {
        "devices": pool.watches_devices,
        "burn": pool.burn,
        "foreign": pool.respects_foreign,
    }
    return json.dumps({"setup": list(pool.setup), "health": health})
