"""Adds one member to a role of a Google policy, by its etag; no other member is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bastion.errors import ProviderRefusedError, ProviderUnavailableError
from bastion.provider.gcp.api import Api
from bastion.provider.gcp.verdicts import Failure

_TRIES = 10
_PAUSE_S = 2.0
"""A new account is not immediately known everywhere."""


Json = dict[str, Any]


def bound(
    api: Api,
    read: Callable[[], Any],
    write: Callable[[Json], Any],
    wanted: tuple[str, str],
    what: str,
) -> str:
    """
    Add a member to a role of a policy; return what was done, or empty.

    Args:
        api: Makes the calls.
        read: The request for the policy.
        write: The request that replaces it.
        wanted: The member, and the role.
        what: Whose policy it is, for messages.

    Raises:
        ProviderError: Depends on Google's answer.
    """
    member, role = wanted
    for _ in range(_TRIES):
        new = with_member(dict(api.call(read(), what)), member, role)
        if new is None:
            return ""
        try:
            answer = api.ask(write({"policy": new}), what)
        except ProviderRefusedError as error:
            if "does not exist" not in str(error):
                raise
            api.clock.sleep(_PAUSE_S)  # the account may be new
            continue
        if not isinstance(answer, Failure):
            return f"{what}: {role} to {member}"
    raise ProviderUnavailableError(
        f"{what}: its policy keeps changing, or {member} is not known yet"
    )


def with_member(policy: Json, member: str, role: str) -> Json | None:
    """Return `policy` with `member` in `role` without a condition; None if it already has that."""
    bindings = [dict(each) for each in policy.get("bindings", ())]
    same = next((b for b in bindings if b["role"] == role and "condition" not in b), None)
    if same is None:
        same = {"role": role, "members": []}
        bindings.append(same)
    if member in same["members"]:
        return None
    same["members"] = [*same["members"], member]
    return {**policy, "bindings": bindings}
