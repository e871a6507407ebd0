"""The chips of this machine, and the processes that hold them."""

import enum
import os
import typing


class _Info(typing.NamedTuple):
    name: str
    hbm_gib: int
    devices_per_chip: int


class TpuChip(enum.Enum):
    """Versions of chips."""

    V4 = _Info("v4", hbm_gib=32, devices_per_chip=1)


def get_local_chips() -> tuple[TpuChip | None, int]:
    """Return the existing chips."""
    if os.environ["FAULT"] == "mixed":
        raise AssertionError("Expected one chip type")
    return (None, 0) if os.environ["FAULT"] == "none" else (TpuChip.V4, 4)


def chip_path(chip_type: TpuChip, index: int) -> str:
    """Return the file of a chip."""
    return f"/dev/accel{index}"


def get_chip_owners() -> dict[str, int]:
    """Return the process on each chip."""
    return {} if os.environ["FAULT"] == "free" else {"/dev/accel0": os.getpid()}
