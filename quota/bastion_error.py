"""
`BastionError`: the root of the errors that users see, whichever package raises them.

It is here, below all packages, so that one `except` catches all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

_E = TypeVar("_E", bound=Exception)


_MOST, _BEGIN, _END = 1000, 600, 250
"""
The most characters of a problem, and how many are kept of a longer one: the field at its start and
what is allowed at its end.

A shortened sentence has room for the name of a file before it, and is not shortened again.
"""


def shortened(problem: str) -> str:
    """Return `problem`, shortened in the middle if it is long, as with megabytes of text."""
    if len(problem) <= _MOST:
        return problem
    left_out = len(problem) - _BEGIN - _END
    return f"{problem[:_BEGIN]} … {left_out:,} characters … {problem[-_END:]}"


def in_notebooks(error: _E) -> _E:
    """Return `error`; IPython then shows only the user's own lines of its traceback."""
    error._render_traceback_ = partial(_of_the_user, error)  # type: ignore[attr-defined]
    return error


def _of_the_user(error: Exception) -> list[str]:
    """Return what IPython shows of an uncaught error: the user's own lines, and none of ours."""
    import traceback

    house = __file__.rpartition("quota")[0]
    ours = tuple(f"{house}{room}/" for room in ("bastion", "bundler", "quota"))
    ours += ("<string>",)  # values' `__init__`, compiled from text
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(ours) and "/IPython/" not in frame.filename
    ]
    shown = [*traceback.format_list(frames), f"{type(error).__name__}: {error}"]
    return [line.rstrip("\n") for line in [*shown, *getattr(error, "__notes__", ())]]


class BastionError(Exception):
    """
    The root of all errors that users see; `bastion.errors` draws the tree.

    Args:
        message: One line, no full stop: what is wrong, the value, what is allowed.
        hint: What to do about it, or empty.
        output: The last lines of a program that failed, oldest first, if there was one.
    """

    __module__ = "bastion.errors"  # where users find it; tracebacks show it

    def __init__(self, message: str, *, hint: str = "", output: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.output = output
        if hint:
            self.add_note(f"hint: {hint}")  # Python prints it below an uncaught error

    def __str__(self) -> str:
        """The message alone: hints are shown separately."""
        return self.message

    def _render_traceback_(self) -> list[str]:
        return _of_the_user(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its attributes, since the arguments of each class differ."""
        return _as_it_was, (type(self), self.args), self.__dict__

    @property
    def in_a_line(self) -> str:
        """Return message and hint in one line."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


def _as_it_was(kind: type[_E], said: tuple[object, ...]) -> _E:
    """Return an error of `kind` made without its arguments; pickle sets its attributes."""
    error = kind.__new__(kind, *said)
    error.args = said
    return error
