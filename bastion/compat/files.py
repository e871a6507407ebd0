"""Job files of other systems, recognised by file name and content."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from bastion.client.submit.launch_file import text_in
from bastion.compat.imported import Imported
from bastion.errors import SpecError
from bastion.spec.code import Code

SCRIPTS = (".sbatch", ".slurm", ".sh", ".bash")
_DIRECTIVE = re.compile(r"^#SBATCH", re.MULTILINE)


def is_foreign(path: str | Path) -> bool:
    """Whether `read` recognises the file by its name."""
    return Path(path).suffix in (*SCRIPTS, ".json")


def read(
    path: str | Path,
    *,
    arguments: Sequence[str] = (),
    code: Code | None = None,
    device: Callable[[], str] = str,
    user: str = "",
) -> Imported:
    """
    Return the launch that a Slurm script or an AXLearn job spec (JSON) describes.

    Args:
        path: The path of the file.
        arguments: The arguments of a script.
        code: The code in the directory where it runs.
        device: Returns the resource type of a GPU requested without a type, or an empty text;
            called only if needed.
        user: The user who submits it.

    Raises:
        NotFoundError: There is no such file.
        SpecError: It cannot be read, is invalid, or has options without a counterpart; the error
            lists every problem.
    """
    file = Path(path)
    text = text_in(file)
    try:
        if file.suffix == ".json":
            return _axlearn(text, arguments, code, user)
        return _sbatch(file, text, arguments, code, device)
    except SpecError as error:
        raise SpecError(*(f"{path}: {problem}" for problem in error.problems)) from None


def _axlearn(text: str, arguments: Sequence[str], code: Code | None, user: str) -> Imported:
    from bastion.compat.axlearn import to_launch

    if arguments:
        raise SpecError(f"takes no arguments; its command stands in it: {' '.join(arguments)!r}")
    return to_launch(text, user=user, code=code)


def _sbatch(
    file: Path, text: str, arguments: Sequence[str], code: Code | None, device: Callable[[], str]
) -> Imported:
    from bastion.compat.sbatch import to_launch

    if file.suffix not in (".sbatch", ".slurm") and not _DIRECTIVE.search(text):
        raise SpecError("has no #SBATCH line; a plain script runs as: bastion launch -- bash FILE")
    return to_launch(
        text,
        name=file.name,
        arguments=arguments,
        code=code,
        device=device,
        environment=os.environ,
    )
