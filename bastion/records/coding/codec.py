"""
Encode and decode stored records as JSON; all records pass through this file.

Fields at their defaults are not written. An unknown field, a wrong type or another schema is a
`RecordError` that names the key and the path of every problem. pydantic is used only here and for
users' files. It is imported when a record is not as expected: a program that reads a few good
records does not wait for the import.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from bastion.errors import ForeignRecordError, RecordError, SpecError
from bastion.spec.arrays.array import Array
from bastion.spec.arrays.indices import Indices
from bastion.spec.resources import Resources
from bastion.value import fields
from bastion.version import VERSION
from quota.amounts import Amounts
from quota.value import MISSING

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

MOST_DETAILS = 100
"""Maximum number of problems reported for one record."""
_MOST_ERRORS = 20_000
"""Maximum number of problems collected for one record: each takes about a kilobyte."""

_T = TypeVar("_T")
_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_ALWAYS = object()
_PLAIN = frozenset({NoneType, str, int, float, bool})
_UNKNOWN_FIELD = ("unexpected_keyword_argument", "extra_forbidden")
_NOT_A_TABLE = ("dict_type", "model_type", "dataclass_type", "dataclass_exact_type")
_UNKNOWN_KIND = "unknown_kind"
_Path = tuple[int | str, ...]


MAX_REQUEST_BYTES = 4 << 20
"""Maximum size of what a user sends: the bastion reads nothing larger."""


def encode(record: object) -> bytes:
    """
    Return `record` as JSON without the fields at their defaults.

    Raises:
        SpecError: A text in it has bytes that are not UTF-8, as can happen on a command line.
    """
    text = _JSON.encode(plain(record))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        before = text[: error.start].rpartition('"')[2][-40:]
        after = text[error.start :].partition('"')[0][:40]
        raise SpecError(f"{before + after!r} is not UTF-8", hint="write it in UTF-8") from None


def encode_request(body: object) -> bytes:
    """
    Return a request, or an object that goes with one, as it is stored.

    Raises:
        SpecError: It is larger than what the bastion reads, or a text in it is not UTF-8.
    """
    data = encode(body)
    if len(data) > MAX_REQUEST_BYTES:
        raise SpecError(
            f"the request: {too_large(len(data))}", hint="move long values into files of its code"
        )
    return data


def too_large(size_bytes: int) -> str:
    """Return why a request of that size is not read."""
    return f"{size_bytes} bytes is too large; at most {MAX_REQUEST_BYTES}"


def plain(record: object) -> Any:
    """
    Return `record` as JSON-ready Python values without the fields at their defaults.

    `kind` and `schema` are always written: a reader needs them to choose the type.
    """
    return _writer(type(record))(record)


def _writer_of(kind: Any) -> Callable[[Any], Any]:
    """Return the encoder for exactly this type: root has 100,000 values of a few types."""
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
    stored = _stored_fields(kind)
    names, defaults = tuple(name for name, _ in stored), tuple(default for _, default in stored)
    if len(names) < 2:  # `attrgetter` returns a tuple only for two or more
        return partial(_fields, names, defaults, lambda record: [getattr(record, n) for n in names])
    return partial(_fields, names, defaults, attrgetter(*names))


_writer: Any = cache(_writer_of)


def _same(item: Any) -> Any:
    return item


def _list(items: Any) -> list[Any]:
    return [_writer(type(item))(item) for item in items]


def _amounts(resources: Resources) -> dict[str, int]:
    return dict(resources.amounts.items())


def _table(items: Any) -> dict[str, Any]:
    return {name: _writer(type(item))(item) for name, item in items.items()}


def _fields(
    names: tuple[str, ...],
    defaults: tuple[object, ...],
    read: Callable[[object], Iterable[object]],
    record: object,
) -> dict[str, Any]:
    made = {}
    for name, default, item in zip(names, defaults, read(record)):
        if item is not default and (default is _ALWAYS or item != default):
            kind = type(item)
            made[name] = item if kind in _PLAIN else _writer(kind)(item)
    return made


def decode(kind: type[_T], data: bytes, *, key: str, most_values: int | None = None) -> _T:
    """
    Decode `data` as a record of type `kind`.

    Args:
        kind: The type of the record.
        data: JSON.
        key: The key, for errors.
        most_values: Maximum number of values, lists and tables included, because checking each
            takes time and memory. None: no maximum.

    Raises:
        ForeignRecordError: It has another schema, an unknown field or an unknown `kind`: another
            version of Bastion wrote it.
        RecordError: It is malformed; the message names `key` and the path of every problem.
    """
    if "pydantic" not in sys.modules and most_values is None:
        from bastion.records.coding.well_formed import UNEXPECTED, well_formed

        found: Any = well_formed(kind, data)
        if found is not UNEXPECTED:
            read: _T = found
            return read
    from pydantic import ValidationError

    if most_values is not None and _has_more_values(data, most_values):
        raise RecordError(f"{key}: holds more than {most_values} values, the most allowed")
    try:
        wanted: Any = kind
        record: _T = _adapter(wanted).validate_json(data)
    except ValidationError as error:
        text = f"{key}: {problems_text(error)}"
        if _is_foreign(error):
            hint = (
                "another version of Bastion wrote it: upgrade this one to the newest version in use"
            )
            raise ForeignRecordError(text, hint=hint) from error
        raise RecordError(text) from error
    return record


def decode_known(kind: type[_T], data: bytes, *, key: str) -> _T:
    """
    Decode a record to show it: fields that only a newer version knows are left out.

    Do not start, end or send anything based on what is left.

    Raises:
        ForeignRecordError: It has another schema, or an unknown `kind`.
        RecordError: It is malformed.
    """
    while True:
        try:
            return decode(kind, data, key=key)
        except ForeignRecordError as error:
            record = json.loads(data)
            if not _drop_unknown(record, error.__cause__):
                raise
            data = json.dumps(record).encode()


def _drop_unknown(record: Any, error: Any) -> bool:
    """Drop the unknown fields that `error` names from `record`; return whether there were any."""
    found = False
    for detail, path in _meant(error):
        if detail["type"] not in _UNKNOWN_FIELD:
            continue
        at = record
        for part in path[:-1]:
            at = at[part]
        del at[path[-1]]
        found = True
    return found


def _has_more_values(data: bytes, most: int) -> bool:
    """Whether the JSON in `data` has more values than `most`; False if it is not JSON."""
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
    """Whether the record is well formed, but in a format that this version does not know."""
    return any(
        detail["type"] in (*_UNKNOWN_FIELD, _UNKNOWN_KIND)
        or (path == ("schema",) and type(detail["input"]) is int)
        for detail, path in _meant(error)
    )


def problems_text(error: ValidationError) -> str:
    """Return the problems of a failed validation: path, problem, value."""
    return "; ".join(problems(error))


def problems(error: ValidationError) -> list[str]:
    """
    Return one line for each of the first problems: the path of the field and its problem.

    Of a union's alternatives, only the one that its `kind` names is reported.
    """
    count = error.error_count()
    if count > _MOST_ERRORS:
        return [f"{count} things are wrong with it"]
    found = [line for detail, path in _meant(error) for line in _problems(detail, path)]
    more = count - MOST_DETAILS
    return found if more <= 0 else [*found, f"{more} more things are wrong"]


def _meant(error: ValidationError) -> Iterator[tuple[Any, _Path]]:
    """Yield each problem and its path; for a union, only the alternative that its `kind` names."""
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
    """Return the first problems; none if there are too many to examine."""
    if error.error_count() > _MOST_ERRORS:
        return []
    return error.errors(include_url=False)[:MOST_DETAILS]


def _beginning(path: _Path, places: Collection[_Path]) -> _Path | None:
    """Return the shortest of `places` that is a prefix of `path`, or None."""
    starts = (path[:length] for length in range(len(path) + 1)) if places else ()
    return next((start for start in starts if start in places), None)


def _without_text(details: list[Any]) -> list[Any]:
    """Return `details`; for a union of text and a value, keep only the problems of the value."""
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
    """Whether the detail only says that another alternative of the union was meant."""
    is_kind = detail["type"] == "literal_error" and detail["loc"][-1] == "kind"
    return is_kind and len(detail["loc"]) > 1 and " or " not in detail["ctx"]["expected"]


def _problems(detail: Any, loc: _Path) -> list[str]:
    """Return the problems at one path: a value that checks itself may find several."""
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
        if detail["type"] in _NOT_A_TABLE:
            text = "input should be a table"  # pydantic's own text names our class
        shown = repr(detail.get("input"))
        text = f"{text[:1].lower()}{text[1:]} (found {shown[:80]})"
    return text


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@cache
def _stored_fields(kind: Any) -> tuple[tuple[str, object], ...]:
    """Return (name, default) of every field of `kind`; `_ALWAYS` for fields always written."""
    stored = []
    for field in fields(kind):
        default: object = _ALWAYS
        if field.name not in ("kind", "schema"):
            if field.default is not MISSING:
                default = field.default
            elif field.default_factory is not MISSING:
                default = field.default_factory()
        stored.append((field.name, default))
    return tuple(stored)
