"""Variables of a launch that most likely contain a secret, which would be stored in the bucket."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quota.pattern import pattern

if TYPE_CHECKING:
    from bastion.spec.launch import Launch

_NAMES = pattern(
    r"(?:.*_)?(?:TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY)",
    re.IGNORECASE,
)
_LEAST_CHARACTERS = 12
"""`EOS_TOKEN=</s>` and `SECRET=none` are not secrets; keys and tokens are longer."""


def open_secret_warnings(launch: Launch) -> tuple[str, ...]:
    """Return a warning if variables of `launch` have names and lengths like those of secrets."""
    variables = [*(job.env for job in launch.jobs)]
    variables += [process.env for job in launch.jobs for process in job.processes]
    names = sorted({name for env in variables for name, text in env.items() if _is_one(name, text)})
    if not names:
        return ()
    return (
        f"{', '.join(names)}: stored in the bucket in plain text, for all who can read it;"
        f" --secret={names[0]}, or Secret in Python, is read on the machine instead",
    )


def _is_one(name: str, text: str) -> bool:
    is_elsewhere = text.startswith(("/", "./", "~", "{"))  # a path, or a parameter of a sweep
    is_long = len(text) >= _LEAST_CHARACTERS and not is_elsewhere
    return is_long and _NAMES.fullmatch(name) is not None
