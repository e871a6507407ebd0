"""
Decode records that are as expected, using only the standard library.

A short command reads one or two records. Importing the validator and building its schemas takes
longer than everything else that such a command does. This module reads what the validator would
read: anything unexpected is `UNEXPECTED`, and the validator then decides and reports.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, NoReturn, TypeVar, Union, get_args, get_origin

from bastion.errors import SpecError
from bastion.spec.resources import Resources
from bastion.spec.values.written import Written
from bastion.value import fields, has_fields
from quota.amounts import Amounts

_T = TypeVar("_T")
_Read = Callable[[Any], Any]


class _Unexpected(Exception):  # noqa: N818  # no error: the validator is asked
    """Something that only the validator can judge."""


UNEXPECTED: Final = object()
"""What `well_formed` returns for data that only the validator can judge."""
_ESCAPED_SURROGATE = "\\ud"
"""Two of these can be one character, and a single one is none; the validator can tell."""


def well_formed(kind: type[_T], data: bytes) -> _T | object:
    """Return `data` as a record of type `kind`, or `UNEXPECTED`."""
    try:
        text = data.decode()
        if _ESCAPED_SURROGATE in text.lower():
            return UNEXPECTED
        wanted: Any = kind
        record: _T = _reader(wanted)(json.loads(text, parse_constant=_refuse))
    except (_Unexpected, ValueError, TypeError, OverflowError, RecursionError, SpecError):
        return UNEXPECTED
    return record


def _refuse(_: object) -> NoReturn:
    raise _Unexpected


@cache
def _reader(kind: Any) -> _Read:
    """Return the reader of values of type `kind`; for a type that is unknown here, it refuses."""
    if kind in (str, bool, NoneType):
        return _exactly(kind)
    if kind is int:
        return _exactly(int)
    if kind is float:
        return _float
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _literal(arguments)
    if origin in (Union, UnionType):
        return _union(tuple(map(_reader, arguments)))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _list(tuple, _reader(arguments[0]))
    if origin in (list, Sequence):
        return _list(list, _reader(arguments[0]))
    if origin is Mapping and arguments[0] is str:
        return _table(_reader(arguments[1]))
    if isinstance(kind, type):
        return _reader_of_class(kind)
    return _refuse


def _reader_of_class(kind: Any) -> _Read:
    if issubclass(kind, (Resources, Written)):
        stored: _Read = kind._stored
        return stored
    if issubclass(kind, Amounts):
        return _amounts
    if issubclass(kind, Enum):
        enum: _Read = kind
        return enum
    if has_fields(kind) and getattr(kind, "__pydantic_config__", None):
        return _record(kind)
    return _refuse


def _exactly(kind: type) -> _Read:
    def read(item: Any) -> Any:
        return item if type(item) is kind else _refuse(item)

    return read


def _float(item: Any) -> float:
    return float(item) if type(item) in (int, float) else _refuse(item)


def _literal(allowed: tuple[object, ...]) -> _Read:
    known = {(type(each), each) for each in allowed}

    def read(item: Any) -> Any:
        return item if isinstance(item, (str, int)) and (type(item), item) in known else _refuse(0)

    return read


def _union(readers: tuple[_Read, ...]) -> _Read:
    """Read what exactly one alternative accepts: if two accept it, the validator decides."""

    def read(item: Any) -> Any:
        found = []
        for each in readers:
            try:
                found.append(each(item))
            except (_Unexpected, ValueError, TypeError, SpecError):
                continue
        return found[0] if len(found) == 1 else _refuse(item)

    return read


def _list(made: Callable[[list[Any]], Any], reader: _Read) -> _Read:
    def read(items: Any) -> Any:
        return made([reader(item) for item in items]) if type(items) is list else _refuse(items)

    return read


def _table(reader: _Read) -> _Read:
    def read(items: Any) -> Any:
        if type(items) is not dict:
            _refuse(items)
        return {name: reader(item) for name, item in items.items()}

    return read


def _amounts(items: Any) -> Amounts:
    whole = type(items) is dict and all(type(number) is int for number in items.values())
    return Amounts(items) if whole else _refuse(items)


def _record(kind: Any) -> _Read:
    """Return the reader of a value; the value's own checks run when it is created, as always."""
    names = {each.name for each in fields(kind)}
    readers: dict[str, _Read] = {}

    def read(items: Any) -> Any:
        if type(items) is not dict or not items.keys() <= names:
            _refuse(items)
        if not readers:  # on first use: a type can contain itself
            readers.update({name: _reader(hint) for name, hint in _hints(kind).items()})
        return kind(**{name: readers[name](item) for name, item in items.items()})

    return read


def _hints(kind: Any) -> dict[str, Any]:
    from typing import get_type_hints

    return get_type_hints(kind)
