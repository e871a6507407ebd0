"""
Calls whose misfit arguments are told in the words of their package, once Python refused them.

A call that fits pays for one `try`. What tells the others is loaded when there is one.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from quota.misfit import Misfit

_KEPT = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")
"""What a wrapper takes over. `functools.wraps` does it in twice the time, a hundred times over."""


def _interrupted() -> list[str]:
    """What IPython shows of Ctrl-C: where the call waited says nothing to its user."""
    return [KeyboardInterrupt.__name__]


def explained(call: Any, called: str, tell: Callable[[Misfit], Exception]) -> Any:
    """Return `call`; arguments that do not fit raise what `tell` returns in place of TypeError."""

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
    """Have the public methods of `kind`, and how it is made, `explained`."""
    for name in dir(kind):
        method = getattr(kind, name)
        if type(method) is FunctionType and (name == "__init__" or name[0] != "_"):
            called = kind.__name__ if name == "__init__" else name
            setattr(kind, name, explained(method, called, tell))
