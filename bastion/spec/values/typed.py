"""
Check the fields of a value against their declared types.

A spec may be a Python value as well as a file, and Python accepts any value in a field. A value of
the wrong type is refused when the spec is created, before anything compares or copies it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from bastion.errors import SpecError
from bastion.value import fields
from quota.choice import choose

_WORDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    NoneType: "None",
}


def check_types(made: Any, *, prefix: str = "") -> None:
    """
    Check every field of the dataclass `made` against its annotation.

    It supports plain types, `Literal`, unions, `Sequence`, `tuple[X, ...]` and `Mapping`.

    Args:
        made: A value whose `__post_init__` is running.
        prefix: Prefix of field names in errors, such as `where.`.

    Raises:
        SpecError: A field has a value of the wrong type; the error lists all such fields.
    """
    kind = made.__class__
    if all(_fits(kind, each, getattr(made, each.name)) for each in fields(kind)):
        return
    problems = [
        problem
        for name, hint in get_type_hints(kind).items()
        for problem in problems_of(f"{prefix}{name}", hint, getattr(made, name))
    ]
    raise SpecError(*problems, hint=_example(kind, problems))


def _example(kind: type, problems: Sequence[str]) -> str:
    """Return an example for a missing field of `kind`; empty if no value is one."""
    from bastion.spec.values.misuse import EXAMPLES

    for name, hint in get_type_hints(kind).items():
        wanted = [each.__name__ for each in _members(hint) if each.__name__ in EXAMPLES]
        if wanted and any(_lacks(problem, name) for problem in problems):
            return f"as {EXAMPLES[wanted[0]]}"
    return ""


def _lacks(problem: str, name: str) -> bool:
    field, _, text = problem.partition(": ")
    return name in field and " is not a" in text


def _members(hint: Any) -> Iterator[type]:
    """Yield the classes in `hint`, at any depth."""
    if isinstance(hint, type):
        yield hint
    for each in get_args(hint):
        yield from _members(each)


def _fits(kind: type, field: Any, written: object) -> bool:
    """Whether a field holds its default, as most do, or a value of its type."""
    is_default = written is field.default or (
        written.__class__ is field.default_factory and not written  # an empty table or list
    )
    return is_default or _check(kind, field.name)(written)


@cache
def _check(kind: type, name: str) -> Callable[[Any], bool]:
    return _fit(_hint(kind, name))


def _hint(kind: type, name: str) -> Any:
    """Return the declared type of one field; reading those of all fields is slow."""
    owner = next(each for each in kind.__mro__ if name in vars(each).get("__annotations__", ()))
    declared = vars(owner)["__annotations__"][name]
    alone = type(owner.__name__, (), {"__annotations__": {name: declared}})
    alone.__module__ = owner.__module__
    return get_type_hints(alone)[name]


def _fit(hint: Any) -> Callable[[Any], bool]:
    """
    Return a fast predicate: whether `problems_of` finds nothing in a value.

    Specs are created by the thousand, mostly from bytes that the bastion wrote itself.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda written: written in inner
    if origin in (Union, UnionType):
        members = tuple(map(_fit, inner))
        return lambda written: any(fits(written) for fits in members)
    if origin in (Sequence, tuple):
        each = _fit(inner[0])
        return lambda written: (
            isinstance(written, Sequence)
            and not isinstance(written, str | bytes)
            and all(map(each, written))
        )
    if origin is Mapping:
        name_fits, item_fits = map(_fit, inner)
        return lambda written: (
            isinstance(written, Mapping)
            and all(map(name_fits, written))
            and all(map(item_fits, written.values()))
        )
    return lambda written: _is(written, hint)


def problems_of(field: str, hint: Any, written: object) -> Iterator[str]:
    """Yield why `written` is not a value of the annotation `hint`; nothing if it is one."""
    if isinstance(written, str) and not _is_utf8(written):
        yield f"{field}: {_shown(written)} is not UTF-8"
    else:
        yield from _problems_of(field, hint, written)


def _problems_of(field: str, hint: Any, written: object) -> Iterator[str]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if written not in inner:
            words = choose(str(written), [word for word in inner if word])
            yield f"{field}: {_shown(written)} is unknown, {words}"
    elif origin in (Union, UnionType):
        yield from _union_problems(field, hint, written)
    elif origin in (Sequence, tuple):
        if isinstance(written, str):
            yield f"{field}: {_shown(written)} is one string; give a list"
        elif isinstance(written, bytes) or not isinstance(written, Sequence):
            yield f"{field}: {_shown(written)} is not a list; write it as [...]"
        else:
            for i, each in enumerate(written):
                yield from problems_of(f"{field}[{i}]", inner[0], each)
    elif origin is Mapping:
        if not isinstance(written, Mapping):
            yield f"{field}: {_shown(written)} is not a table of {{name: value}}"
        else:
            for name, each in written.items():
                yield from problems_of(f"{field}, the name", inner[0], name)
                yield from problems_of(f"{field}.{name}", inner[1], each)
    elif not _is(written, hint):
        yield f"{field}: {_shown(written)} is not {_described(hint)}"


def _union_problems(field: str, hint: Any, written: object) -> Iterator[str]:
    """Yield nothing if a member accepts it; its inner problems if a member has the same shape."""
    tried = [list(problems_of(field, each, written)) for each in get_args(hint)]
    if all(tried):
        inside = (each for each in tried if not each[0].startswith(f"{field}: "))
        yield from next(inside, [f"{field}: {_shown(written)} is not {_described(hint)}"])


def _is(written: object, kind: type) -> bool:
    if isinstance(written, bool):
        return kind is bool
    if isinstance(written, str):
        return kind is str and _is_utf8(written)
    return isinstance(written, int | float if kind is float else kind)


def _is_utf8(text: str) -> bool:
    """Whether it can be stored: a Python string may contain bytes that are not characters."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _described(hint: Any) -> str:
    """Return `hint` in words, to follow `is not`."""
    if get_origin(hint) in (Union, UnionType):
        *most, last = (_described(each) for each in get_args(hint))
        return f"{', '.join(most)} or {last}"
    if get_origin(hint) in (Sequence, tuple):
        return "a list"
    if hint in _WORDS:
        return _WORDS[hint]
    return f"an {hint.__name__}" if hint.__name__[0] in "AEIOU" else f"a {hint.__name__}"


def _shown(written: object) -> str:
    """Return `written` for an error, shortened; only its type unless it is text or a number."""
    if written is None or isinstance(written, str | int | float):
        return reprlib.repr(written)
    return f"{type(written).__name__}(...)"
