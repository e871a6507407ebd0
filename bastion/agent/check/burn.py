"""
`python -m bastion.agent.check.burn`: a short load on this machine, reported in lines.

Every CPU hashes the same block repeatedly and compares the digests, and `cuda_burn` loads every
NVIDIA GPU. Devices of other kinds are named and not loaded. It is a process of its own, so a driver
that hangs or crashes does not affect the agent. Exit code 1: something is wrong, and its last line
says what.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from bastion.agent.check.cuda_burn import (
    CudaError,
    Driver,
    GpuOutcome,
    NoLoadError,
    burn_gpu,
)
from bastion.agent.setup.environment import NEURONS, TPUS
from bastion.agent.setup.gpu_types import gpu_types

BLOCK_BYTES = 1 << 20
_BLOCKS = 16
"""Blocks hashed between two looks at the clock, in some milliseconds."""


def main(argv: Sequence[str]) -> int:
    """Load the devices on the command line; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="burn", allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--device", action="append", default=[], metavar="TYPE=COUNT")
    said = parser.parse_args(argv)
    devices = {kind: int(count) for kind, _, count in (each.partition("=") for each in said.device)}
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    lines, problems = burnt(devices, said.seconds)
    sys.stdout.write("\n".join([*lines, *problems]) + "\n")
    return 1 if problems else 0


def burnt(devices: Mapping[str, int], seconds: float) -> tuple[list[str], list[str]]:
    """Load CPUs and GPUs at the same time; return what they did, and what is wrong."""
    gpus = sum(devices[kind] for kind in gpu_types(devices))
    others = [f"{n} {kind}" for kind, n in devices.items() if kind in TPUS | NEURONS]
    lines = [f"{each}: not loaded, no program here can" for each in others]
    problems: list[str] = []
    told: list[GpuOutcome | NoLoadError | str] = []
    load = threading.Thread(target=lambda: told.extend(_gpus(gpus, seconds)))
    load.start()
    hashed, wrong = burn_processors(os.cpu_count() or 1, seconds)
    load.join()
    lines.append(f"{os.cpu_count()} CPUs: {hashed / 1e9:.1f} GB hashed")
    if wrong:
        problems.append(f"{wrong} digests of the CPUs differ from the first")
    for index, each in enumerate(told):
        if isinstance(each, NoLoadError):
            lines.append(f"GPU {index}: not loaded, {each}")
        elif isinstance(each, str) or each.problem:
            problems.append(each if isinstance(each, str) else f"GPU {index}: {each.problem}")
        else:
            lines.append(
                f"GPU {index}, {each.name}: {each.memory_bytes / 2**30:.1f} GiB of memory,"
                f" {each.products / 1e12:.1f} tera-operations"
            )
    return lines, problems


def burn_processors(count: int, seconds: float) -> tuple[int, int]:
    """
    Hash on `count` parallel threads; return the bytes hashed, and the digests that differ.

    Each thread hashes at least once, even if a busy machine starts it late.
    """
    block = bytes(range(256)) * (BLOCK_BYTES // 256)
    wanted = _chain(block)
    until = time.monotonic() + seconds
    rounds, wrong = [0] * count, [0] * count

    def work(number: int) -> None:
        while not rounds[number] or time.monotonic() < until:
            wrong[number] += _chain(block) != wanted
            rounds[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rounds) * _BLOCKS * BLOCK_BYTES, sum(wrong)


def _chain(block: bytes) -> bytes:
    digest = hashlib.sha256()
    for _ in range(_BLOCKS):
        digest.update(block)  # without the interpreter's lock
    return digest.digest()


def _gpus(wanted: int, seconds: float) -> list[GpuOutcome | NoLoadError | str]:
    """Return the outcome of every GPU, loaded in parallel, or why it cannot be loaded."""
    if not wanted:
        return []
    try:
        driver = Driver()
        count = driver.count()
    except NoLoadError as error:
        return [error] * wanted
    except CudaError as error:
        return [f"the driver of the GPUs does not work: {error}"]
    outcomes: list[GpuOutcome | NoLoadError | str] = ["was not reached"] * count

    def work(index: int) -> None:
        try:
            outcomes[index] = burn_gpu(driver, index, seconds)
        except CudaError as error:
            outcomes[index] = f"GPU {index}: {error}"
        except NoLoadError as error:
            outcomes[index] = error

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if count != wanted:
        outcomes.append(f"the driver has {count} GPUs, and the pool declares {wanted}")
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
