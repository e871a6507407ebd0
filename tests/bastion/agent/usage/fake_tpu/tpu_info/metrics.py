"""What libtpu serves while a program uses the chips."""

import os
import typing

from tpu_info import device


class Usage(typing.NamedTuple):
    """The usage of one chip."""

    device_id: int
    memory_usage: int
    total_memory: int
    duty_cycle_pct: float


def get_chip_usage(chip_type: device.TpuChip, addr: str = "localhost:8431") -> list[Usage]:
    """Return the usage of each chip."""
    if os.environ["FAULT"] != "":
        raise RuntimeError("Libtpu metrics unavailable")
    return [Usage(i, i << 30, 32 << 30, 10.0 * i) for i in range(4)]
