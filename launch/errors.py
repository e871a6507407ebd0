"""Errors as users see them: one line, a hint and an exit code, without a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from launch import exits
from launch.screen.notes import in_one_line, note, tell

if TYPE_CHECKING:
    from pathlib import Path


class UsageError(Exception):
    """
    The command line is invalid.

    Args:
        message: One line, no full stop.
        hint: What to do about it, or empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def report(error: BaseException, *, debug: bool) -> int:
    """
    Print `error` on stderr; return the exit code.

    Args:
        error: The error.
        debug: Also show the traceback.
    """
    if debug:
        import traceback

        traceback.print_exception(error)
    match error:
        case KeyboardInterrupt():
            for told in getattr(error, "__notes__", ()) or ("",):
                note(f"interrupted; {told}" if told else "interrupted")
            return exits.DETACHED
        case BrokenPipeError():
            _stop_printing()
            return exits.BROKEN_PIPE
        case UsageError():
            tell(str(error), error.hint)
            return exits.USAGE
        case OSError():
            tell(*explained(error))
            if error.filename is None and error.errno != errno.ENOENT:
                _stop_printing()
            return exits.FAILED
        case _:
            return _report_failure(error)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Name `path` in an operating system error: errors of a write or a close name no file."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


_HINTS = {
    errno.ENOSPC: "the disk is full: free some space, then try again",
    errno.EDQUOT: "the disk quota is exceeded: free some space, then try again",
    errno.EFBIG: "the file would exceed the file size limit: check ulimit -f",
    errno.EROFS: "the filesystem is read-only: choose another place",
    errno.EACCES: "you have no permission: choose another place, or change its permissions",
}


def explained(error: OSError) -> tuple[str, str]:
    """Return the message and the hint for an operating system error."""
    what = error.strerror or str(error)
    if error.filename is None and error.errno == errno.ENOENT:  # no write raises it
        if what != os.strerror(errno.ENOENT):  # from `tempfile`, which has tried each folder
            return what, "free some space in one of them, or set TMPDIR to another folder"
        return f"the current folder: {what}", "it was removed: change to an existing folder"
    where = error.filename or "standard output"
    return f"{where}: {what}", _HINTS.get(error.errno or 0, "")


def _report_failure(error: BaseException) -> int:
    from bastion import errors

    if not isinstance(error, errors.BastionError):
        tell(
            f"this is a bug in bastion: {type(error).__name__}: {in_one_line(str(error))}",
            "" if "--debug" in sys.argv else "run it again with --debug and report the output",
        )
        return exits.FAILED
    for line in error.output:
        note(line)
    problems = error.problems if isinstance(error, errors.SpecError) else (error.message,)
    for problem in problems[:-1]:
        tell(problem)
    tell(problems[-1], error.hint)
    if page := _page(error):
        note(f"more: bastion help {page}")
    match error:
        case errors.SpecError():
            return exits.USAGE
        case errors.TimedOutError():
            return exits.WAIT_TIMED_OUT
        case errors.NotFoundError():
            return exits.NOT_FOUND
        case errors.RefusedError():
            return exits.REFUSED
        case errors.InDoubtError():
            return exits.IN_DOUBT
        case _:
            return exits.FAILED


_PLAIN = ("SpecError", "RefusedError", "NotFoundError", "TimedOutError")
"""Errors whose messages say everything that their page says."""


def _page(error: Exception) -> str:
    """Return the name of the page about an error, or empty."""
    from launch.handbook import find_page

    named = (kind.__name__ for kind in type(error).__mro__)
    found = next((name for name in named if name.endswith("Error") and find_page(name)), "")
    return "" if found in _PLAIN else found


def _stop_printing() -> None:
    """Keep the interpreter from reporting the broken pipe again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
