"""Views as JSON that every reader accepts: strict, and without spaces."""

from __future__ import annotations

import json
from math import isfinite


def view_bytes(body: object) -> bytes:
    """
    Encode a view as strict JSON: a float that JSON does not have becomes null.

    Python writes `NaN` and `Infinity`, for which jq and browsers reject the whole document.
    """
    try:
        return _json(body)
    except ValueError:
        return _json(_finite(body))


def _json(body: object) -> bytes:
    separators = (",", ":")
    return json.dumps(body, separators=separators, ensure_ascii=False, allow_nan=False).encode()


def _finite(body: object) -> object:
    """Return `body` with null for every number that JSON does not have."""
    if isinstance(body, dict):
        return {name: _finite(item) for name, item in body.items()}
    if isinstance(body, (list, tuple)):
        return [_finite(item) for item in body]
    return None if isinstance(body, float) and not isfinite(body) else body
