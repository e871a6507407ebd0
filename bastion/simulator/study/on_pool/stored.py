"""
The format of a result in the bucket: compressed JSON.

It comes from a machine that other jobs also use, so it is read as data: a pickle could run code on
the user's machine.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from bastion.errors import BastionError
from bastion.simulator.engine.result import JobResult, Result, Series
from bastion.simulator.expectations import Broken

SCHEMA = 1


def encoded(result: Result) -> bytes:
    """Return `result` as bytes."""
    written: dict[str, Any] = {each.name: getattr(result, each.name) for each in fields(Result)}
    written |= {
        "schema": SCHEMA,
        "settings": dict(result.settings),
        "series": _columns(result.series),
        "held": _columns(result.held),
        "broken": [asdict(each) for each in result.broken],
    }
    # Named tuples become lists in the order of their fields.
    return gzip.compress(json.dumps(written).encode(), mtime=0)


def decoded(data: bytes, *, source: str) -> Result:
    """
    Return the result that `encoded` wrote.

    Args:
        data: The bytes that were kept.
        source: The job that kept it, for errors.

    Raises:
        BastionError: It is damaged, or of another version.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        written = json.loads(gzip.decompress(data))
        schema = written.pop("schema")
        if schema != SCHEMA:
            raise BastionError(
                f"{source} kept a result of schema {schema!r}; this program reads {SCHEMA}"
            )
        jobs = TypeAdapter(list[JobResult]).validate_python(written.pop("jobs"))
        broken = TypeAdapter(tuple[Broken, ...]).validate_python(written.pop("broken"))
        series, held = _series(written.pop("series")), _series(written.pop("held"))
        return Result(jobs=jobs, series=series, held=held, broken=broken, **written)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ValidationError):
            found = error.errors()[0]
            why = f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
        else:
            why = f"{type(error).__name__}: {error}"
        raise BastionError(f"the result that {source} kept cannot be read: {why}") from None


def _columns(series: Series) -> Mapping[str, Any]:
    columns = {name: list(each) for name, each in series.columns.items()}
    return {"times": list(series.times), "columns": columns}


def _series(written: Mapping[str, Any]) -> Series:
    series = Series(list(written["columns"]))
    series.times.extend(written["times"])
    for name, numbers in written["columns"].items():
        if len(numbers) != len(series.times):
            raise ValueError(f"{name}: {len(numbers)} numbers at {len(series.times)} times")
        series.columns[name].extend(numbers)
    return series
