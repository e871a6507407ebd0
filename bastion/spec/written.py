"""Values that are stored and typed as text of their own, as `0-99%10` is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


class Written:
    """A frozen value; `str()` writes it, and `_stored` reads what was written."""

    __slots__ = ()

    def __setattr__(self, name: str, _: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls._stored)

    @classmethod
    def _stored(cls, stored: object) -> Any:
        raise NotImplementedError
