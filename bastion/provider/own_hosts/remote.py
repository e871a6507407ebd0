"""
`python -m bastion.provider.own_hosts.remote`: one call of the ssh provider, on its host.

It reads one JSON object from standard input and writes one to standard output. A host holds its
machines as a local provider does, in one folder per bucket:

    <folder>/<bucket>/<machine>/    see `bastion.provider.local`
    <folder>/lock                   held while a machine is created

A host is one machine at a time. A create is refused while another machine is not gone, whatever its
pool, bucket, login user or folder. `bastion.provider.own_hosts.claim` has the file that records
this.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bastion.clock import SystemClock
from bastion.errors import BastionError
from bastion.machine import Machine, Pool
from bastion.machine_name import pool_of
from bastion.provider.local import LocalProvider
from bastion.provider.machine_folder import words
from bastion.provider.own_hosts.claim import Claim, free_host, take_host
from bastion.provider.own_hosts.leftovers import prune, remove_all
from bastion.provider.port import Listed
from quota.amounts import Amounts

MAX_REQUEST_BYTES = 1 << 20


def main() -> int:
    """Answer one request; return 1 if that fails."""
    said = json.loads(sys.stdin.read(MAX_REQUEST_BYTES))
    try:
        answer = answer_to(said)
    except BastionError as error:
        answer = {"error": error.in_a_line}
    sys.stdout.write("\n" + json.dumps(answer))  # ends a line that the login shell printed
    return 0


def answer_to(said: dict[str, Any]) -> dict[str, Any]:
    """
    Do what `said` requests and return the answer to the provider.

    Raises:
        ProviderUnavailableError: The host's folder cannot be used.
    """
    folder = Path.home() / said["folder"]
    provider = _provider(said, folder / said["bucket"])
    match said["do"]:
        case "list":
            machines = _listed(said, folder, provider)
            prune(folder, SystemClock().wall())
            return {"machines": machines}
        case "remove":
            return _remove(said, folder)
        case "delete":
            is_known = said["machine"] in {each.name for each in provider.list()}
            provider.delete(said["machine"])
            return {"known": is_known}
        case _:
            return _create(said, folder, provider)


def _provider(said: dict[str, Any], directory: Path) -> LocalProvider:
    return LocalProvider(
        said["root"],
        directory,
        SystemClock(),
        build=said["build"],
        keep_work_s=said["keep_work_s"],
        run_as=said["run_as"],
        permit_s=said["permit_s"],
        begin=said["begin"],
    )


def _create(said: dict[str, Any], folder: Path, provider: LocalProvider) -> dict[str, Any]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        holder = _other_machine(said, folder) or take_host(
            _claim(said, folder, said["machine"], said["pool"]), os.environ
        )
        if holder is not None:
            return {"busy": holder.machine, "owner": holder.owner}
        pool = Pool(
            name=said["pool"],
            provider="ssh",
            resources=Amounts(said["resources"]),
            max_machines=1,
            labels=said["labels"],
        )
        provider.create([Machine(name=said["machine"], pool=pool.name, zone=said["zone"])], pool)
    return {}


def _remove(said: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Remove everything of ours, unless a machine of any bucket is left here."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        holder = _other_machine({**said, "machine": ""}, folder)
        if holder is not None:
            return {"busy": holder.machine, "owner": holder.owner}
        why = remove_all(folder, SystemClock())
    return {"kept": why} if why else {}


def _other_machine(said: dict[str, Any], folder: Path) -> Claim | None:
    """Return another machine in this folder that is not gone, or None."""
    for path in sorted(folder.glob("*/*/machine")):
        other, bucket = path.parent, path.parts[-3]
        is_other = (other.name, bucket) != (said["machine"], said["bucket"])
        if is_other and not (other / "gone").exists():
            pool = next(iter(words(path)), pool_of(other.name))
            return replace(_claim(said, folder, other.name, pool), bucket=bucket)
    return None


def _claim(said: dict[str, Any], folder: Path, machine: str, pool: str) -> Claim:
    home = folder / said["bucket"] / machine / "home"
    user = pwd.getpwuid(os.getuid()).pw_name
    return Claim(machine=machine, pool=pool, bucket=said["bucket"], user=user, home=str(home))


def _listed(said: dict[str, Any], folder: Path, provider: LocalProvider) -> list[dict[str, str]]:
    """List the machines here; those that are not gone confirm the claim of this host."""
    found = provider.list()
    for each in found:
        claim = _claim(said, folder, each.name, each.pool)
        if each.state == "gone":
            free_host(Path(claim.home), os.environ)
        else:
            take_host(claim, os.environ)
    return [_told(each) for each in found]


def _told(each: Listed) -> dict[str, str]:
    return {
        "name": each.name,
        "pool": each.pool,
        "state": each.state,
        "zone": each.zone,
        "stuck": each.stuck,
    }


if __name__ == "__main__":
    sys.exit(main())
