"""The operating system of this process."""

from __future__ import annotations

import platform
import sys

from quota.bastion_error import BastionError


def require_linux(program: str) -> None:
    """
    Check that this is Linux, which the bastion and its agents need; clients also run on macOS.

    Args:
        program: What needs it, for the message.

    Raises:
        BastionError: It is another system.
    """
    if sys.platform != "linux":
        raise BastionError(
            f"{program} runs on Linux only; this is {platform.system() or sys.platform}",
            hint="create a VM for it (bastion create --help), or use a Linux host; jobs can be"
            " submitted and inspected from this computer",
        )
