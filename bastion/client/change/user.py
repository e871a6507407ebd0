"""The default user of a request: the login name of this process."""

from __future__ import annotations

from bastion.errors import SpecError


def login_name() -> str:
    """
    Return the login name of this process's user.

    Raises:
        SpecError: The user has no name in the operating system.
    """
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise SpecError(
            "user: this process's user has no name in the operating system",
            hint="name yourself: Client(root, user=...) or --user_id=USER",
        ) from None
