"""
`BastionError`: the root of the errors that users meet, whichever package raises them.

It is here, below all packages, so that one `except` catches all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

_E = TypeVar("_E", bound=Exception)


def in_notebooks(error: _E) -> _E:
    """Return `error`, of which IPython shows the user's own lines, as of a `BastionError`."""
    error._render_traceback_ = partial(_of_the_user, error)  # type: ignore[attr-defined]
    return error


def _of_the_user(error: Exception) -> list[str]:
    """What IPython shows of an uncaught error: the user's own lines, and none of this house."""
    import traceback

    house = __file__.rpartition("quota")[0]
    ours = tuple(f"{house}{room}/" for room in ("bastion", "bundler", "quota"))
    ours += ("<string>",)  # how values are made, which is compiled from text
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(ours) and "/IPython/" not in frame.filename
    ]
    shown = [*traceback.format_list(frames), f"{type(error).__name__}: {error}"]
    return [line.rstrip("\n") for line in [*shown, *getattr(error, "__notes__", ())]]


class BastionError(Exception):
    """
    The root of all errors that users meet; `bastion.errors` draws the tree.

    Args:
        message: One line, no full stop: what is wrong, the value, what is allowed.
        hint: What to do about it, or empty.
        output: The last lines of the program that failed, oldest first, where one did.
    """

    __module__ = "bastion.errors"  # where users find it; tracebacks show it

    def __init__(self, message: str, *, hint: str = "", output: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.output = output
        if hint:
            self.add_note(f"hint: {hint}")  # which Python prints below an uncaught error

    def __str__(self) -> str:
        """The message alone: hints are shown separately."""
        return self.message

    def _render_traceback_(self) -> list[str]:
        return _of_the_user(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is, for another process: what a class takes to make one differs."""
        return _as_it_was, (type(self), self.args), self.__dict__

    @property
    def in_a_line(self) -> str:
        """Message and hint in one line."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


def _as_it_was(kind: type[_E], said: tuple[object, ...]) -> _E:
    """An error of `kind`, made anew without its arguments; pickle sets its attributes."""
    error = kind.__new__(kind, *said)
    error.args = said
    return error
