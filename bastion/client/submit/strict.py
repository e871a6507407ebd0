"""
Values of a launch file that have the wrong type, such as `retries = "3"` or `max_runtime = true`.

pydantic converts them: text to numbers, true to 1, `"yes"` to true. The user meant something else,
and Python code with such a value is refused for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from bastion.spec.values.typed import problems_of
from bastion.value import fields, has_fields

_SCALARS = (bool, int, float, str)


def misread(kind: type[Any], table: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield a problem for each scalar in `table`, at any depth, whose type is not its field's."""
    hints: Mapping[str, Any] = _hints(kind)
    for name, written in table.items():
        if name in hints:
            yield from _misread_in(hints[name], written, f"{path}{name}")


_hints: Any = cache(get_type_hints)


def _misread_in(hint: Any, written: object, path: str) -> Iterator[str]:
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if isinstance(written, dict):
        for member in members:
            if get_origin(member) is Mapping:
                for name, each in written.items():
                    yield from _misread_in(get_args(member)[1], each, f"{path}.{name}")
            elif isinstance(member, type) and _is_meant(member, written, members):
                yield from misread(member, written, f"{path}.")
    elif isinstance(written, list):
        for member in members:
            if get_origin(member) in (Sequence, tuple):
                for at, each in enumerate(written):
                    yield from _misread_in(get_args(member)[0], each, f"{path}.{at}")
    elif isinstance(written, _SCALARS) and all(map(_is_scalar, members)):
        wanted = reduce(or_, (each for each in members if each is not NoneType))
        for problem in problems_of(path, wanted, written):
            yield problem.replace("True or False", "true or false")  # as TOML writes them


def _is_scalar(member: Any) -> bool:
    return member in (*_SCALARS, NoneType)


def _is_meant(member: type[Any], written: Mapping[str, Any], members: Sequence[Any]) -> bool:
    """Whether a table is meant as a `member`: the only one, or the one that its `kind` names."""
    if not has_fields(member):
        return False
    kinds = {each.name: each.default for each in fields(member)}
    rivals = [each for each in members if isinstance(each, type) and has_fields(each)]
    return len(rivals) == 1 or ("kind" in kinds and written.get("kind") == kinds["kind"])
