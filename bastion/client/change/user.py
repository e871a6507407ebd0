"""The default user of a request: the login name of this process."""

from __future__ import annotations

import os

from bastion.errors import SpecError

_VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Source: Python's `getpass.getuser`; importing it would load everything for reading passwords."""


def login_name() -> str:
    """
    Return the login name of this process's user.

    Raises:
        SpecError: The user has no name in the operating system.
    """
    named = next(filter(None, map(os.environ.get, _VARIABLES)), None)
    if named:
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise SpecError(
            "user: this process's user has no name in the operating system",
            hint="name the user: Client(root, user=...) or --user_id=USER",
        ) from None
