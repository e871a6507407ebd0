"""
The submissions of a script that `bastion launch SCRIPT` runs, told to the command that runs it.

The command names a file in the environment of the script; every launch that the script submits adds
a line. A script that exits without one submitted nothing, and its user is told.
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
