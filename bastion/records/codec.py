"""
Values to JSON and back: the one door for stored records.

Defaults are left out when writing. When reading, an unknown field, a wrong type or another schema
is a `RecordError` that names the key and the path of every problem. pydantic stands only here and
where users' files enter. It is loaded when a record is read: a program that only writes records
does not wait for it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from bastion.errors import ForeignRecordError, RecordError, SpecError
from bastion.spec.array import Array
from bastion.spec.indices import Indices
from bastion.spec.resources import Resources
from bastion.version import VERSION
from quota.amounts import Amounts

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

MOST_DETAILS = 100
"""Most problems of a record that are reported."""
_MOST_ERRORS = 20_000
"""Most problems of a record that are collected: each takes about a kilobyte."""

_T = TypeVar("_T")
_ALWAYS = object()
_UNKNOWN_FIELD = ("unexpected_keyword_argument", "extra_forbidden")
_UNKNOWN_KIND = "unknown_kind"
_Path = tuple[int | str, ...]


def encode(record: object) -> bytes:
    """`record` as JSON without what stands at its default."""
    return json.dumps(plain(record), separators=(",", ":"), ensure_ascii=False).encode()


def plain(record: object) -> Any:
    """
    `record` as JSON-ready Python values, without what stands at its default.

    `kind` and `schema` are always written: a reader needs them to know what it reads.
    """
    return _writer(type(record))(record)


def _writer_of(kind: Any) -> Callable[[Any], Any]:
    """How values of exactly this type are written: root has a hundred thousand of a few types."""
    if issubclass(kind, (NoneType, str, int, float, bool)):
        return _same
    if issubclass(kind, (tuple, list)):
        return _list
    if issubclass(kind, Resources):
        return _amounts
    if issubclass(kind, (Indices, Array)):
        return str
    if issubclass(kind, (Mapping, Amounts)):
        return _table
    return partial(_fields, _stored_fields(kind))


_writer: Any = cache(_writer_of)


def _same(item: Any) -> Any:
    return item


def _list(items: Any) -> list[Any]:
    return [_writer(type(item))(item) for item in items]


def _amounts(resources: Resources) -> dict[str, int]:
    return dict(resources.amounts.items())


def _table(items: Any) -> dict[str, Any]:
    return {name: _writer(type(item))(item) for name, item in items.items()}


def _fields(stored: tuple[tuple[str, object], ...], record: object) -> dict[str, Any]:
    made = {}
    for name, default in stored:
        item = getattr(record, name)
        if item is not default and (default is _ALWAYS or item != default):
            made[name] = _writer(type(item))(item)
    return made


def decode(kind: type[_T], data: bytes, *, key: str, most_values: int | None = None) -> _T:
    """
    Decode `data` as a record of type `kind`.

    Args:
        kind: The type of the record.
        data: JSON.
        key: What an error calls it.
        most_values: The most values it may have, lists and tables included, because checking each
            takes time and memory. None: any number.

    Raises:
        ForeignRecordError: It is of another schema, or has a field or a `kind` that is not known:
            another version of Bastion wrote it.
        RecordError: It holds none; the message names `key` and the path of every problem.
    """
    from pydantic import ValidationError

    if most_values is not None and _has_more_values(data, most_values):
        raise RecordError(f"{key}: holds more than {most_values} values, the most allowed")
    try:
        wanted: Any = kind
        record: _T = _adapter(wanted).validate_json(data)
    except ValidationError as error:
        text = f"{key}: {problems_text(error)}"
        if _is_foreign(error):
            hint = "another version of Bastion wrote it: bring this one to the newest that runs"
            raise ForeignRecordError(text, hint=hint) from error
        raise RecordError(text) from error
    return record


def _has_more_values(data: bytes, most: int) -> bool:
    """Whether the JSON of `data` has more values than `most`; what is no JSON has none."""
    from pydantic_core import from_json

    try:
        left = [from_json(data)]
    except ValueError:
        return False
    count = 0
    while left and count <= most:
        held = left.pop()
        if isinstance(held, (list, dict)):
            count += len(held)
            left += held.values() if isinstance(held, dict) else held
    return count > most


def _is_foreign(error: ValidationError) -> bool:
    """Whether it is whole, and only of a form that this version does not know."""
    return any(
        detail["type"] in (*_UNKNOWN_FIELD, _UNKNOWN_KIND)
        or (path == ("schema",) and type(detail["input"]) is int)
        for detail, path in _meant(error)
    )


def problems_text(error: ValidationError) -> str:
    """The problems of a failed reading: path, what is wrong, the value."""
    return "; ".join(problems(error))


def problems(error: ValidationError) -> list[str]:
    """
    A line for each of the first problems: the path of the field, and what is wrong with it.

    Of the alternatives of a union only the one that its `kind` names is spoken of.
    """
    count = error.error_count()
    if count > _MOST_ERRORS:
        return [f"{count} things are wrong with it"]
    found = [line for detail, path in _meant(error) for line in _problems(detail, path)]
    more = count - MOST_DETAILS
    return found if more <= 0 else [*found, f"{more} more things are wrong"]


def _meant(error: ValidationError) -> Iterator[tuple[Any, _Path]]:
    """What is wrong, and where; of a union only with the alternative that its `kind` names."""
    details = _without_text(_details(error))
    others = {detail["loc"][:-1] for detail in details if _is_other_kind(detail)}
    unions = {branch[:-1] for branch in others}
    told = set()
    for detail in details:
        path = detail["loc"]
        union = _beginning(path, unions)
        if union is None:
            yield detail, path
        elif path[: len(union) + 1] not in others:
            yield detail, (*union, *path[len(union) + 1 :])
        elif _is_other_kind(detail) and union not in told:
            told.add(union)
            branches = [each for each in details if each["loc"][: len(union)] == union]
            if all(each["loc"][: len(union) + 1] in others for each in branches):
                yield {**detail, "type": _UNKNOWN_KIND, "msg": "Unknown"}, (*union, "kind")


def _details(error: ValidationError) -> list[Any]:
    """The first things that are wrong; none where they are too many to be looked at."""
    if error.error_count() > _MOST_ERRORS:
        return []
    return error.errors(include_url=False)[:MOST_DETAILS]


def _beginning(path: _Path, places: Collection[_Path]) -> _Path | None:
    """The one of `places` that `path` begins with, the shortest first; None where none is."""
    starts = (path[:length] for length in range(len(path) + 1)) if places else ()
    return next((start for start in starts if start in places), None)


def _without_text(details: list[Any]) -> list[Any]:
    """`details`, but of a list in which text may stand for a value what is wrong with the value."""
    texts = [d["loc"][:-1] for d in details if d["loc"][-1:] == ("str",)]
    places = {place for place in texts if isinstance(place[-1], int)}
    found = []
    for detail in details:
        path = detail["loc"]
        place = _beginning(path, places)
        if place is None:
            found.append(detail)
        elif path[len(place)] != "str":
            found.append({**detail, "loc": (*place, *path[len(place) + 1 :])})
    return found


def _is_other_kind(detail: Any) -> bool:
    """Whether it only says that this alternative of a union is not the one meant."""
    is_kind = detail["type"] == "literal_error" and detail["loc"][-1] == "kind"
    return is_kind and len(detail["loc"]) > 1 and " or " not in detail["ctx"]["expected"]


def _problems(detail: Any, loc: _Path) -> list[str]:
    """What is wrong at one place: a value that checks itself may find several things."""
    path = ".".join(str(part) for part in loc)
    error = detail.get("ctx", {}).get("error")
    texts = error.problems if isinstance(error, SpecError) else (_problem(detail, loc),)
    return [f"{path}: {text}" if path else text for text in texts]


def _problem(detail: Any, loc: _Path) -> str:
    text = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] in _UNKNOWN_FIELD:
        text = "unknown field"
    elif detail["type"] == "missing":
        text = "missing"
    elif detail["type"] == "literal_error" and loc[-1:] == ("schema",):
        text = (
            f"{detail['input']!r} is not known, Bastion {VERSION} reads {detail['ctx']['expected']}"
        )
    elif not str(detail["msg"]).startswith("Value error"):
        shown = repr(detail.get("input"))
        text = f"{text[:1].lower()}{text[1:]} (found {shown[:80]})"
    return text


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@cache
def _stored_fields(kind: Any) -> tuple[tuple[str, object], ...]:
    """(name, default) of every field of `kind`; `_ALWAYS` for what is never left out."""
    fields = []
    for field in dataclasses.fields(kind):
        default: object = _ALWAYS
        if field.name not in ("kind", "schema"):
            if field.default is not dataclasses.MISSING:
                default = field.default
            elif field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
        fields.append((field.name, default))
    return tuple(fields)
