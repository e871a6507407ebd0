"""Values with a text form of their own, such as `0-99%10` or `train-x7k2:any`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from bastion.errors import SpecError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


_T = TypeVar("_T")


class Written(ABC):
    """A frozen value, stored as text; `str()` formats it and `_stored` parses it."""

    __slots__ = ()

    def __setattr__(self, name: str, _: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name}")

    def __setstate__(self, state: tuple[None, dict[str, object]]) -> None:
        """Restore a copy: `pickle` and `copy` would set its fields like anyone else."""
        for name, item in state[1].items():
            object.__setattr__(self, name, item)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls._stored)

    @classmethod
    @abstractmethod
    def _stored(cls, stored: object) -> Any:
        """Return the value for `stored`, which is its text or the value itself."""


def once_each(
    field: str, written: Iterable[_T | str], parse: Callable[[str], _T], *, most: int
) -> tuple[_T, ...]:
    """
    Return the values in `written`, parsing text, without duplicates.

    Raises:
        SpecError: One is malformed, or there are more than `most`; the error lists every problem.
    """
    made: dict[_T, None] = {}
    problems: list[str] = []
    for each in written:
        try:
            made[parse(each) if isinstance(each, str) else each] = None
        except SpecError as error:
            problems += error.problems
    if len(made) > most:
        problems.append(f"{field}: {len(made)} is not allowed; at most {most}")
    if problems:
        raise SpecError(*problems)
    return tuple(made)
