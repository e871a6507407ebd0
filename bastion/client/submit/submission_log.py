"""
The submissions of a script run by `bastion launch SCRIPT`, reported to that command.

The command names a file in the script's environment, and each launch that the script submits adds a
line. If the script exits without one, it submitted nothing, and its user is told.
"""

from __future__ import annotations

import os
from contextlib import suppress

VARIABLE = "BASTION_SUBMISSION_LOG"


def note_submission(launch: str) -> None:
    """Add `launch` to the file of the command that runs this script, if one does."""
    path = os.environ.get(VARIABLE)
    if path:
        with suppress(OSError), open(path, "a") as file:
            file.write(f"{launch}\n")
