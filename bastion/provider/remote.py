"""
`python -m bastion.provider.remote`: one call of the ssh provider, on the host that it is about.

One JSON object comes in on standard input, one goes out on standard output. A host holds its
machines as a local provider does, in a folder for each bucket:

    <folder>/<bucket>/<machine>/    see `bastion.provider.local`
    <folder>/lock                   held while a machine is made

A host is one machine at a time: a create is refused while another machine is not gone, of whatever
pool or bucket.
"""

from __future__ import annotations

import fcntl
import json
import sys
from pathlib import Path
from typing import Any

from bastion.clock import SystemClock
from bastion.errors import BastionError
from bastion.machine import Machine, Pool
from bastion.provider.local import LocalProvider
from quota.amounts import Amounts

MAX_REQUEST_BYTES = 1 << 20


def main() -> int:
    """Answer one request; 1 where it cannot be."""
    said = json.loads(sys.stdin.read(MAX_REQUEST_BYTES))
    try:
        answer = answer_to(said)
    except BastionError as error:
        answer = {"error": error.in_a_line}
    sys.stdout.write(json.dumps(answer))
    return 0


def answer_to(said: dict[str, Any]) -> dict[str, Any]:
    """
    Do what `said` asks for and return what the provider is told.

    Raises:
        ProviderUnavailableError: The host's folder cannot be used.
    """
    folder = Path.home() / said["folder"]
    provider = _provider(said, folder / said["bucket"])
    match said["do"]:
        case "list":
            return {"machines": _listed(provider)}
        case "delete":
            is_known = said["machine"] in {each["name"] for each in _listed(provider)}
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
    )


def _create(said: dict[str, Any], folder: Path, provider: LocalProvider) -> dict[str, Any]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for other in sorted(folder.glob("*/*/machine")):
            is_other = other.parent.name != said["machine"] or other.parts[-3] != said["bucket"]
            if is_other and not (other.parent / "gone").exists():
                return {"busy": other.parent.name}
        pool = Pool(
            name=said["pool"],
            provider="ssh",
            resources=Amounts(said["resources"]),
            max_machines=1,
            labels=said["labels"],
        )
        provider.create([Machine(name=said["machine"], pool=pool.name, zone=said["zone"])], pool)
    return {}


def _listed(provider: LocalProvider) -> list[dict[str, str]]:
    return [
        {"name": each.name, "pool": each.pool, "state": each.state, "zone": each.zone}
        for each in provider.list()
    ]


if __name__ == "__main__":
    sys.exit(main())
