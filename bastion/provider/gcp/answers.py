"""Google's answers when it does not do what it was asked to do: an error, or no token."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from bastion.errors import ProviderRefusedError, ProviderUnavailableError
from bastion.provider.gcp.gce_request import ZONE
from bastion.provider.gcp.verdicts import Failure


def without_token(error: Any) -> ProviderRefusedError | ProviderUnavailableError:
    """Return what it means that Google issues no token."""
    import google.auth.exceptions

    is_outage = isinstance(error, google.auth.exceptions.TransportError) or error.retryable
    if is_outage:
        return ProviderUnavailableError(f"Google did not answer with a token: {error}")
    return ProviderRefusedError(
        f"Google gives the bastion no token: {error}",
        hint="run: gcloud auth application-default login",
    )


def failure_of(response: Mapping[str, str], content: bytes) -> Failure:
    """Return an HTTP error with Google's explanation in JSON, if there is one."""
    status = int(response.get("status", 0))
    asked = response.get("retry-after", "")
    retry_after_s = float(asked) if asked.isdecimal() else 0.0
    codes: list[str] = []
    message = content[:300].decode(errors="replace").strip()
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        error = json.loads(content)["error"]
        message = str(error["message"])
        codes += [str(each.get("reason", "")) for each in error.get("errors", ())]
        codes += [str(error.get("status", ""))]
        codes += [
            str(each.get("reason") or each.get("@type", "").rpartition(".")[2])
            for each in error.get("details", ())
        ]
    return Failure(status=status, codes=tuple(codes), message=message, retry_after_s=retry_after_s)


def silent_places(silent: Iterable[str], zones: Collection[str]) -> str:
    """
    Return which places without an answer to a list may hold machines of a pool; empty for none.

    Google's lists are global. An outage of a zone that is not one of `zones` omits nothing of the
    pool.
    """
    named = ((place, place.rpartition("/")[2]) for place in silent)
    mine = [place for place, zone in named if zone in zones or not ZONE.fullmatch(zone)]
    return ", ".join(mine)[:200]
