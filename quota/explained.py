"""
Calls whose misfit arguments are explained in their package's words, after Python refused them.

A call that fits pays for one `try`. The code that explains the others is loaded on demand.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from quota.misfit import Misfit

_KEPT = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")
"""What a wrapper copies. `functools.wraps` takes twice as long, a hundred times over."""


def _interrupted() -> list[str]:
    """Return what IPython shows of Ctrl-C: where the call waited does not matter to its user."""
    return [KeyboardInterrupt.__name__]


def explained(call: Any, called: str, tell: Callable[[Misfit], Exception]) -> Any:
    """Return `call`; for arguments that do not fit it raises what `tell` returns, not TypeError."""

    def checked(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except KeyboardInterrupt as stop:
            stop._render_traceback_ = _interrupted  # type: ignore[attr-defined]
            raise
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from the body of `call`, or from deeper
        from quota.misfit import misfit_of

        raise tell(misfit_of(call, called, given, named))

    for name in _KEPT:
        setattr(checked, name, getattr(call, name))
    checked.__wrapped__ = call  # type: ignore[attr-defined]
    return checked


def explain_methods(kind: type, tell: Callable[[Misfit], Exception]) -> None:
    """Make the public methods of `kind`, and its constructor, `explained`."""
    for name in dir(kind):
        method = getattr(kind, name)
        if type(method) is FunctionType and (name == "__init__" or name[0] != "_"):
            called = kind.__name__ if name == "__init__" else name
            setattr(kind, name, explained(method, called, tell))
