"""
A sweep: the parameters of each task of an array.

The parameters of task i are a pure function of the sweep and i, identical on every machine and in
every version of Python. Random numbers come from this module's own generator, the SHA-256 of seed,
i and name, because the random streams of libraries change between versions.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from bastion.errors import SpecError
from bastion.spec.arrays.indices import MAX_TASKS
from bastion.spec.arrays.template import byte_count
from bastion.spec.values.spec_value import value
from bastion.spec.values.typed import check_types
from bastion.value import field
from quota.pattern import pattern

Setting: TypeAlias = str | int | float | bool
"""The value of a parameter."""

_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_DIGITS = 6
"""Significant digits of a drawn number: as many as people type, and unaffected by rounding."""
_MOST_DIGITS = 15
"""The same for a range that is narrow compared with its numbers: all are exact in a float."""
_NARROW = 1000.0
"""A range is narrow if its numbers are this many times its width; others keep six digits."""
_WIDEST = 1e300
"""Of the numbers of a range, and of their difference: a float holds each of them."""
_LONGEST_DRAW = "-1.23456789012345e+300"
_EXACT_DIGITS = 28
"""Decimal logarithms are correctly rounded everywhere; those of libm differ in the last bit."""


@value
class Uniform:
    """A number between `low` and `high`, uniformly distributed."""

    kind: Literal["uniform"] = "uniform"
    low: float = field(kw_only=False)
    high: float = field(kw_only=False)

    def __post_init__(self) -> None:
        check_types(self)
        _check_range(self.low, self.high)

    def drawn(self, part: float) -> Setting:
        """Return the number at the fraction `part`, from 0 to below 1."""
        return _cut(self.low + part * (self.high - self.low), self.low, self.high)


@value
class LogUniform:
    """A number between `low` and `high`, whose logarithm is uniformly distributed."""

    kind: Literal["log_uniform"] = "log_uniform"
    low: float = field(kw_only=False)
    high: float = field(kw_only=False)

    def __post_init__(self) -> None:
        check_types(self)
        _check_range(self.low, self.high)
        if self.low <= 0:
            raise SpecError(f"low: {self.low:g} is not above zero, and has no logarithm")

    def drawn(self, part: float) -> Setting:
        """Return the number at the fraction `part`, from 0 to below 1."""
        from decimal import Context  # few launches draw numbers

        exact = Context(prec=_EXACT_DIGITS)
        low, high = (exact.ln(exact.create_decimal_from_float(x)) for x in (self.low, self.high))
        far = exact.multiply(exact.create_decimal_from_float(part), exact.subtract(high, low))
        return _cut(float(exact.exp(exact.add(low, far))), self.low, self.high)


@value
class Choice:
    """One of the values in `of`, each equally likely."""

    kind: Literal["choice"] = "choice"
    of: Sequence[Setting] = field(kw_only=False)

    def __post_init__(self) -> None:
        check_types(self)
        object.__setattr__(self, "of", tuple(self.of))
        problems = list(_setting_problems("of", self.of))
        if problems:
            raise SpecError(*problems)

    def drawn(self, part: float) -> Setting:
        """Return the value at the fraction `part`, from 0 to below 1."""
        return self.of[int(part * len(self.of))]


Draw: TypeAlias = Uniform | LogUniform | Choice


@value
class Sample:
    """`count` random points; the same `seed` gives the same points."""

    count: int = field(kw_only=False)
    seed: int
    draw: Mapping[str, Draw]

    def __post_init__(self) -> None:
        check_types(self)
        object.__setattr__(self, "draw", dict(self.draw))
        problems = []
        if not 1 <= self.count <= MAX_TASKS:
            problems.append(f"count: {self.count} is not allowed; 1 to {MAX_TASKS}")
        if not self.draw:
            problems.append("draw: names no parameter")
        if problems:
            raise SpecError(*problems)

    def point(self, number: int) -> dict[str, Setting]:
        """Return the parameters of the `number`-th point, from 0."""
        return {name: draw.drawn(self._part(number, name)) for name, draw in self.draw.items()}

    def _part(self, number: int, name: str) -> float:
        from hashlib import sha256

        digest = sha256(f"{self.seed}/{number}/{name}".encode()).digest()
        return (int.from_bytes(digest[:8]) >> 11) * 2.0**-53


@value
class Sweep:
    """
    One task for every combination of parameters.

    `grid` generates every combination of its values. `zip` takes the first value of each list, then
    the second of each, and so on. `sample` draws points. If several are set, each point of one is
    combined with each point of the others. Tasks are numbered in the written order, and the last
    parameter changes first.
    """

    grid: Mapping[str, Sequence[Setting]] = field(default_factory=dict)
    zip: Mapping[str, Sequence[Setting]] = field(default_factory=dict)
    sample: Sample | None = None
    at_once: int | None = None
    """How many tasks may run at the same time; None: limited only by the quota and the machines."""

    def __post_init__(self) -> None:
        check_types(self, prefix="sweep.")
        for part in ("grid", "zip"):
            lists = {name: tuple(settings) for name, settings in getattr(self, part).items()}
            object.__setattr__(self, part, lists)
        problems = list(self._problems())
        if problems:
            raise SpecError(*problems)

    def _problems(self) -> Iterator[str]:
        for part, lists in (("grid", self.grid), ("zip", self.zip)):
            for name, settings in lists.items():
                yield from _setting_problems(f"sweep.{part}.{name}", settings)
        yield from self._twice()
        lengths = {name: len(settings) for name, settings in self.zip.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} has {n}" for name, n in lengths.items())
            yield (
                "sweep.zip: its lists are combined element by element and must have the same"
                f" length: {shown}"
            )
        names = self.names
        if not names:
            yield "sweep: no parameter given; allowed: grid, zip and sample"
        for name in names:
            if not _NAME.fullmatch(name):
                near = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:63]
                yield (
                    f"sweep: {name!r} is not a valid name of a parameter; letters, digits and _,"
                    f" up to 63, and no digit first, as {near if _NAME.fullmatch(near) else 'lr'}"
                )
        twice = [name for name, n in Counter(map(str.upper, names)).items() if n > 1]
        for name in twice:
            told = ", ".join(each for each in names if each.upper() == name)
            yield f"sweep: two parameters are called {told}; names must differ by more than case"
        if self.at_once is not None and self.at_once < 1:
            yield f"sweep.at_once: {self.at_once} is not allowed; 1 or more"
        if self.count > MAX_TASKS:
            yield f"sweep: it makes {self.count} tasks; at most {MAX_TASKS}"

    def _twice(self) -> Iterator[str]:
        """Yield the problems that would give two tasks the same parameters."""
        rows = [f"sweep.grid.{name}" for name in self.grid]
        told = [map(repr, settings) for settings in self.grid.values()]
        if self.zip:
            rows.append("sweep.zip")
            told.append(map(", ".join, zip(*(map(repr, each) for each in self.zip.values()))))
        for where, texts in zip(rows, told):
            for text, n in Counter(texts).items():
                if n > 1:
                    yield f"{where}: {text} is given {n} times, which would create equal tasks"

    @property
    def names(self) -> tuple[str, ...]:
        """Every parameter, in order."""
        return (*self.grid, *self.zip, *(self.sample.draw if self.sample else ()))

    @property
    def count(self) -> int:
        """The number of tasks."""
        sizes = [len(settings) for settings in self.grid.values()]
        return math.prod(sizes) * self._zipped * (self.sample.count if self.sample else 1)

    @property
    def _zipped(self) -> int:
        return len(next(iter(self.zip.values()))) if self.zip else 1

    def point(self, task: int) -> dict[str, Setting]:
        """
        Return the parameters of a task, in order.

        Args:
            task: Its number, from 0 to below `count`.
        """
        left, drawn = divmod(task, self.sample.count if self.sample else 1)
        left, row = divmod(left, self._zipped)
        found: dict[str, Setting] = {}
        for name, settings in reversed(list(self.grid.items())):
            left, at = divmod(left, len(settings))
            found[name] = settings[at]
        made = {name: found[name] for name in self.grid}
        made |= {name: settings[row] for name, settings in self.zip.items()}
        return made | (self.sample.point(drawn) if self.sample else {})

    def longest(self) -> dict[str, str]:
        """Return the longest text of each parameter, in bytes."""
        made = {
            name: max(map(text_of, settings), key=byte_count)
            for name, settings in (self.grid | self.zip).items()  # type: ignore[operator]
        }
        for name, draw in (self.sample.draw if self.sample else {}).items():
            options = map(text_of, draw.of) if isinstance(draw, Choice) else [_LONGEST_DRAW]
            made[name] = max(options, key=byte_count)
        return made


def text_of(setting: Setting) -> str:
    """Format `setting` for a command: text unchanged, everything else as JSON."""
    if isinstance(setting, bool):
        return "true" if setting else "false"
    return setting if isinstance(setting, str) else repr(setting)


def _check_range(low: float, high: float) -> None:
    if not max(abs(low), abs(high), abs(high - low)) <= _WIDEST:
        raise SpecError(f"low: low and high must be numbers up to {_WIDEST:g}, and as far apart")
    if not low < high:
        raise SpecError(f"low: {low:g} to high {high:g} is not a range; low must be below high")


def _setting_problems(where: str, settings: Sequence[Setting]) -> Iterator[str]:
    if not settings:
        yield f"{where}: has no values; give at least one"
    for setting in settings:
        if isinstance(setting, float) and not math.isfinite(setting):
            yield f"{where}: {setting} is not a number that can be written"
        elif isinstance(setting, str) and "\0" in setting:
            yield f"{where}: holds a NUL character, which no program can receive"


def _cut(number: float, low: float, high: float) -> float:
    """Return `number` with enough digits to distinguish numbers of a narrow range too."""
    digits, ratio = _DIGITS, max(abs(low), abs(high)) / (high - low)
    if ratio < _NARROW:
        ratio = 0.0
    while ratio >= 10 and digits < _MOST_DIGITS:  # by division: logarithms differ between machines
        digits, ratio = digits + 1, ratio / 10
    return min(max(float(f"{number:.{digits}g}"), low), high)
