"""
A gang that adds numbers: the processes find each other through the variables that Bastion sets.

    bastion run --pool=NAME --replicas=2 --resources=memory=32GiB --code=examples -- python3 gang.py

Only `--pool` selects where it runs: on this machine, your own hosts, containers, VMs or slices. The
first process listens at the address that all processes get (`MASTER_ADDR`, `MASTER_PORT`). It
collects one number from each process and sends the sum back, as the all-reduce of a training step
does. PyTorch uses the same variables; for JAX there are `JAX_COORDINATOR_ADDRESS`,
`JAX_NUM_PROCESSES` and `JAX_PROCESS_ID`.

Started alone, without Bastion, it is a gang of one. Exit code: 0 when the sum is correct.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import ExitStack

PATIENCE_S = 60.0
"""How long a process waits for another one. Bastion starts all of them at the same time."""


def main() -> int:
    """Connect to the other processes, and print the sum of all numbers."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    total = added_up(rank + 1, rank, world)
    print(f"rank {rank} of {world}: 1 to {world} add up to {total}", flush=True)
    return 0 if total == world * (world + 1) // 2 else 1


def added_up(number: int, rank: int, world: int) -> int:
    """Return the sum of the numbers of all processes; each calls this with its own."""
    if world == 1:
        return number
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return collected(number, where[1], world) if rank == 0 else sent(number, where)


def collected(number: int, port: int, world: int) -> int:
    """The first process: receive the number of every other one, then send them the sum."""
    with socket.create_server(("", port), backlog=world) as listener, ExitStack() as stack:
        listener.settimeout(PATIENCE_S)
        others = [stack.enter_context(listener.accept()[0]) for _ in range(world - 1)]
        total = number + sum(int(other.recv(64)) for other in others)
        for other in others:
            other.sendall(b"%d" % total)
    return total


def sent(number: int, where: tuple[str, int]) -> int:
    """Every other process: send its number, and receive the sum."""
    with reached(where) as first:
        first.sendall(b"%d" % number)
        return int(first.recv(64))


def reached(where: tuple[str, int]) -> socket.socket:
    """Connect to the first process, which may start to listen a moment later."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(where, timeout=PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
