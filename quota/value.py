"""
`value`: the decorator of plain values, frozen, slotted and keyword-only.

A value is a dataclass, whose methods are written here: `dataclasses` compiles six functions for
each class, which took a third of the time of a short command. One is compiled here, `__init__`;
the others are the same functions for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[_T]) -> type[_T]:
    """Make `cls` a frozen, slotted, keyword-only dataclass."""
    own = {name for name, item in vars(cls).items() if item is not None}
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(cls)
    stored = fields(made)
    methods: dict[str, Callable[..., Any]] = {
        "__init__": _init(made, stored),
        "__eq__": _eq(_reader([each.name for each in stored if each.compare])),
        "__hash__": _hash(_reader([each.name for each in stored if _is_hashed(each)])),
        "__repr__": _repr(tuple(each.name for each in stored if each.repr)),
        "__setattr__": _refuse_assignment,
        "__delattr__": _refuse_deletion,
        "__getstate__": _state(tuple(each.name for each in stored)),
        "__setstate__": _set_state(tuple(each.name for each in stored)),
    }
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _init(made: Any, stored: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Compile `__init__`; each field is set through its slot, which `__setattr__` cannot refuse."""
    given: dict[str, Any] = {"_LEFT_OUT": _LEFT_OUT}
    arguments: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for each in stored:
        name = each.name
        if not each.init:  # `__post_init__` sets it
            continue
        given[f"_set_{name}"] = getattr(made, name).__set__
        taken = name
        if each.default is not MISSING:
            given[f"_default_{name}"] = each.default
            argument = f"{name}=_default_{name}"
        elif each.default_factory is not MISSING:
            given[f"_new_{name}"] = each.default_factory
            argument = f"{name}=_LEFT_OUT"
            taken = f"_new_{name}() if {name} is _LEFT_OUT else {name}"
        else:
            argument = name
        arguments[bool(each.kw_only)].append(argument)
        lines.append(f" _set_{name}(self, {taken})")
    if hasattr(made, "__post_init__"):
        lines.append(" self.__post_init__()")
    named = ["*", *arguments[True]] if arguments[True] else []
    head = f"def __init__({', '.join(('self', *arguments[False], *named))}):"
    text = "\n".join((head, *(lines or [" pass"])))
    exec(text, given)  # noqa: S102  # the names of our own fields, as `dataclasses` does
    init: Callable[..., None] = given["__init__"]
    init.__annotations__ = {each.name: each.type for each in stored} | {"return": None}
    init.__module__ = made.__module__
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


class _LeftOut:
    def __repr__(self) -> str:
        return "<factory>"


_LEFT_OUT = _LeftOut()


def _is_hashed(each: Field[Any]) -> bool:
    return each.compare if each.hash is None else each.hash


def _reader(names: list[str]) -> Callable[[Any], Any]:
    """Return what reads these fields of a value."""
    return attrgetter(*names) if names else lambda _: ()


def _eq(read: Callable[[Any], Any]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        if other.__class__ is self.__class__:
            same: bool = read(self) == read(other)
            return same
        return NotImplemented

    return __eq__


def _hash(read: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(read(self))

    return __hash__


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807
        told = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({told})"

    return recursive_repr()(__repr__)


def _refuse_assignment(_: object, name: str, __: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(names: tuple[str, ...]) -> Callable[[Any], list[Any]]:
    def __getstate__(self: Any) -> list[Any]:  # noqa: N807
        return [getattr(self, name) for name in names]

    return __getstate__


def _set_state(names: tuple[str, ...]) -> Callable[[Any, list[Any]], None]:
    def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807
        for name, item in zip(names, state, strict=True):
            object.__setattr__(self, name, item)

    return __setstate__
