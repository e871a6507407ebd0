"""Who asks, when nobody says: the name this process's user has in the operating system."""

from __future__ import annotations

from bastion.errors import SpecError


def login_name() -> str:
    """
    The name of this process's user.

    Raises:
        SpecError: He has none.
    """
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise SpecError(
            "user: this process's user has no name in the operating system",
            hint="name yourself: Client(root, user=...) or --user_id=USER",
        ) from None
