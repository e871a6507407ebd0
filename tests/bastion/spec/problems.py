"""The problems that a spec is refused for."""

from __future__ import annotations

import pytest

from bastion.errors import SpecError


def problems(make: object, **given: object) -> tuple[str, ...]:
    """Every problem that making it has."""
    with pytest.raises(SpecError) as caught:
        make(**given)  # type: ignore[operator]
    return caught.value.problems
