"""The problems for which a spec is refused."""

from __future__ import annotations

import pytest

from bastion.errors import SpecError


def problems(make: object, **given: object) -> tuple[str, ...]:
    """Return every problem that making it has."""
    with pytest.raises(SpecError) as caught:
        make(**given)  # type: ignore[operator]
    return caught.value.problems
