"""
`value`: the decorator of plain values, frozen, slotted and keyword-only.

A value is a dataclass whose methods are written here, and whose `__init__` is compiled once several
values of a class are made. `dataclasses` compiles six functions per class and imports half the
compiler for that: a short command loads seventy classes and makes a value or two of ten.

A class with a `__misfit__` uses it to make the error for arguments that do not fit: see
`quota.explained`.

Modules that a short command loads take `field`, `fields` and `replace` from here; elsewhere those
of `dataclasses` do the same. What `dataclasses` knows of a value is made on first use.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, dataclass_transform

from quota.explained import explained

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import field as field
    from dataclasses import replace as replace

    from quota.misfit import Misfit as Misfit

_T = TypeVar("_T")


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""Stands for the default of a field without one."""


class Field:
    """One field of a value. Its arguments are those of `dataclasses.field`."""

    __slots__ = ("compare", "default", "default_factory", "init", "kw_only", "name", "repr", "type")

    def __init__(
        self,
        *,
        default: object = MISSING,
        default_factory: Any = MISSING,
        init: bool = True,
        repr: bool = True,  # noqa: A002  # as `dataclasses` calls it
        compare: bool = True,
        kw_only: bool = True,
    ) -> None:
        if default.__class__.__hash__ is None:
            raise ValueError(f"mutable default {default!r}: use default_factory")
        self.name = ""
        self.type: object = None
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.repr = repr
        self.compare = compare
        self.kw_only = kw_only


if not TYPE_CHECKING:  # whose types are those of `dataclasses`, which type checkers know by heart

    def field(**options: Any) -> Field:
        """What `dataclasses.field` is."""
        return Field(**options)

    def replace(item: Any, /, **changes: Any) -> Any:
        """What `dataclasses.replace` is, for values."""
        return item.__replace__(**changes)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[_T]) -> type[_T]:
    """Make `cls` a frozen, slotted, keyword-only dataclass."""
    own = _own_fields(cls)
    stored = {name: each for base in cls.__mro__[-2:0:-1] for name, each in _known(base).items()}
    stored |= own
    names = tuple(stored)
    slots_of_bases = {name for base in cls.__mro__[1:-1] for name in _slots(base)}
    compared = _reader([name for name, each in stored.items() if each.compare])
    later: dict[str, Any] = {
        "__init__": _Init(),
        "__dataclass_fields__": _AsDataclass("__dataclass_fields__"),
        "__dataclass_params__": _AsDataclass("__dataclass_params__"),
        "__replace__": _Replace(),
    }
    if "__init__" in vars(cls):
        later["__replace__"] = _replace  # which calls it
    space = {
        **later,
        "__eq__": _eq(compared),
        "__hash__": _hash(compared),
        "__repr__": _repr,
        "__setattr__": _refuse_assignment,
        "__delattr__": _refuse_deletion,
        "__getstate__": _state,
        "__setstate__": _set_state,
        "__match_args__": tuple(
            name for name, each in stored.items() if each.init and not each.kw_only
        ),
    }
    space |= {name: item for name, item in vars(cls).items() if name not in own}
    if space["__hash__"] is None:  # Python sets it for a class that defines `__eq__` alone
        space["__hash__"] = _hash(compared)
    space |= {
        "__qualname__": cls.__qualname__,
        "__slots__": tuple(name for name in names if name not in slots_of_bases),
        "__value_fields__": stored,
    }
    space.pop("__dict__", None)
    space.pop("__weakref__", None)
    kind: Any = type(cls)
    made: Any = kind(cls.__name__, cls.__bases__, space)
    for each in later.values():
        if each is not _replace:
            each.of = made
    return made  # type: ignore[no-any-return]


def has_fields(kind: Any) -> bool:
    """Whether `kind` is the class of a value, or another dataclass."""
    return hasattr(kind, "__value_fields__") or hasattr(kind, "__dataclass_fields__")


def fields(kind: Any) -> tuple[Any, ...]:
    """Return the fields of a value, of its class, or of another dataclass."""
    known = getattr(kind, "__value_fields__", None)
    if known is not None:
        return tuple(known.values())
    import dataclasses

    return tuple(map(_of_dataclasses, dataclasses.fields(kind)))


def _own_fields(cls: Any) -> dict[str, Field]:
    """Return the fields that the body of `cls` names, in their order."""
    annotations = vars(cls).get("__annotations__", {})
    made = {}
    for name, kind in annotations.items():
        if _is_of_class(kind):
            continue
        given = vars(cls).get(name, MISSING)
        if type(given) is Field:
            each = given
        elif type(given).__module__ == "dataclasses":
            each = _of_dataclasses(given)
        else:
            each = Field(default=given)
        each.name, each.type = name, kind
        made[name] = each
    for name, item in vars(cls).items():
        if type(item) is Field and name not in made:
            raise TypeError(f"{name!r} is a field but has no type annotation")
    return made


def _is_of_class(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind.startswith(("ClassVar", "typing.ClassVar"))
    return ClassVar in (kind, getattr(kind, "__origin__", None))


def _of_dataclasses(given: Any) -> Field:
    """Return the field that `dataclasses` describes by `given`."""
    import dataclasses

    options = {name: getattr(given, name) for name in ("init", "repr", "compare")}
    for name in ("default", "default_factory"):
        if getattr(given, name) is not dataclasses.MISSING:
            options[name] = getattr(given, name)
    each = Field(**options, kw_only=given.kw_only is not False)
    each.name, each.type = given.name, given.type
    return each


def _known(base: Any) -> dict[str, Field]:
    found: dict[str, Field] = vars(base).get("__value_fields__", {})
    return found


def _slots(base: Any) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


class _Init:
    """
    Stands for the `__init__` of a class: one that sets any fields, or one compiled for it.

    It is compiled only for a class of which many values are made: a short command makes one or two.
    """

    of: Any

    def __init__(self) -> None:
        self.left = _MADE_UNTIL_COMPILED

    def __get__(self, item: object, _: type) -> Any:
        self.left -= 1
        if item is None or self.left < 0:
            return self.compiled(item)
        return partial(_set_fields, self, item)

    def compiled(self, item: object) -> Any:
        """The compiled one, which then replaces this in the class."""
        made = _compiled(self.of)
        self.of.__init__ = made
        return made if item is None else made.__get__(item)


def _set_fields(init: _Init, item: Any, /, *given: object, **named: object) -> None:
    """Set the fields of `item`. The compiled `__init__` reports arguments that do not fit."""
    values = None if given else _values(init.of, named)
    if values is None:
        init.compiled(item)(*given, **named)
        return
    for name, each in values.items():
        getattr(init.of, name).__set__(item, each)
    if hasattr(init.of, "__post_init__"):
        item.__post_init__()


def _values(kind: Any, named: dict[str, object]) -> dict[str, object] | None:
    """Return what each field of a new value holds; None if the arguments do not fit."""
    values: dict[str, object] = {}
    for name, each in kind.__value_fields__.items():
        if not each.init:  # `__post_init__` sets it
            continue
        if name in named:
            values[name] = named[name]
        elif each.default is not MISSING:
            values[name] = each.default
        elif each.default_factory is not MISSING:
            values[name] = each.default_factory()
        else:
            return None
    return values if named.keys() <= values.keys() else None


def _compiled(made: Any) -> Callable[..., None]:
    """Compile `__init__`; each field is set through its slot, which `__setattr__` cannot refuse."""
    given: dict[str, Any] = {"_LEFT_OUT": _LEFT_OUT}
    arguments: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for each in made.__value_fields__.values():
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
        arguments[each.kw_only].append(argument)
        lines.append(f" _set_{name}(self, {taken})")
    if hasattr(made, "__post_init__"):
        lines.append(" self.__post_init__()")
    named = ["*", *arguments[True]] if arguments[True] else []
    head = f"def __init__({', '.join(('self', *arguments[False], *named))}):"
    text = "\n".join((head, *(lines or [" pass"])))
    exec(text, given)  # noqa: S102  # the names of our own fields, as `dataclasses` does
    init: Callable[..., None] = given["__init__"]
    types = {each.name: each.type for each in made.__value_fields__.values()}
    init.__annotations__ = types | {"return": None}
    init.__module__ = made.__module__
    init.__qualname__ = f"{made.__qualname__}.__init__"
    tell = getattr(made, "__misfit__", None)
    return init if tell is None else explained(init, made.__name__, tell)


class _LeftOut:
    def __repr__(self) -> str:
        return "<factory>"


_LEFT_OUT = _LeftOut()
_MADE_UNTIL_COMPILED = 8
"""Compiling takes as long as making ten values with many fields."""
_COPIES_UNTIL_COMPILED = 20
"""Compiling takes as long as some hundred copies of a value with many fields."""


class _AsDataclass:
    """Stands for what `dataclasses` knows of a class, made on first use."""

    of: Any

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, _: object, __: type) -> Any:
        import dataclasses

        stored = [(each.name, each.type, _for_dataclasses(each)) for each in fields(self.of)]
        like = dataclasses.make_dataclass(
            self.of.__name__, stored, init=False, repr=False, eq=False, match_args=False
        )
        found = getattr(like, self.name)
        setattr(self.of, self.name, found)
        return found


def _for_dataclasses(each: Field) -> Any:
    import dataclasses

    options = {name: getattr(each, name) for name in ("init", "repr", "compare", "kw_only")}
    for name in ("default", "default_factory"):
        if getattr(each, name) is not MISSING:
            options[name] = getattr(each, name)
    return dataclasses.field(**options)


def _reader(names: list[str]) -> Callable[[Any], Any]:
    """Return a function that reads these fields of a value."""
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


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (each.name for each in fields(self) if each.repr)
    told = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({told})"


class _Replace:
    """
    Stands for the `__replace__` of a class: one for any value, or one compiled for it.

    It is compiled only for a class of which many copies are made: a short command makes few.
    """

    of: Any

    def __init__(self) -> None:
        self.left = _COPIES_UNTIL_COMPILED

    def __get__(self, item: Any, _: type) -> Any:
        self.left -= 1
        if self.left < 0 and item.__class__ is self.of:
            self.of.__replace__ = _compiled_replace(self.of)
            return self.of.__replace__.__get__(item)
        return _replace if item is None else _replace.__get__(item)


def _compiled_replace(made: Any) -> Callable[..., Any]:
    """Compile `__replace__`: a copy sets each slot once, and is checked like a new value."""
    given: dict[str, Any] = {"_KEPT": _LEFT_OUT, "_made": made, "_new": object.__new__}
    given["_replace"] = _replace
    arguments, taken, lines = [], [], []
    for name, each in made.__value_fields__.items():
        if each.init:
            given[f"_set_{name}"] = getattr(made, name).__set__
            arguments.append(f"{name}=_KEPT")
            taken.append(f"{name!r}: {name}")
            lines.append(f" _set_{name}(_copy, self.{name} if {name} is _KEPT else {name})")
    if hasattr(made, "__post_init__"):
        lines.append(" _copy.__post_init__()")
    text = "\n".join(
        (
            f"def __replace__(self, /, {', '.join(('*', *arguments)) if arguments else ''}, **_):",
            " if _ or self.__class__ is not _made:",
            f"  _ |= {{name: item for name, item in {{{', '.join(taken)}}}.items()"
            " if item is not _KEPT}",
            "  return _replace(self, **_)",
            " _copy = _new(_made)",
            *lines,
            " return _copy",
        )
    ).replace("/, , **_", "/, **_")
    exec(text, given)  # noqa: S102  # the names of our own fields, as for `__init__`
    compiled: Callable[..., Any] = given["__replace__"]
    compiled.__module__ = made.__module__
    compiled.__qualname__ = f"{made.__qualname__}.__replace__"
    return compiled


def _replace(self: Any, /, **changes: Any) -> Any:
    for each in fields(self):
        if not each.init:
            if each.name in changes:
                raise ValueError(f"{each.name}: a value sets this field itself")
        elif each.name not in changes:
            changes[each.name] = getattr(self, each.name)
    return type(self)(**changes)


def _refuse_assignment(_: object, name: str, __: object) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_: object, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, item in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, item)
