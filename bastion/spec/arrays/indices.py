"""
A set of task indices, stored as ranges: ten thousand tasks in one pair of numbers.

Ranges are sorted, separate and never empty, so equal sets have equal ranges. If tasks alternate
between different outcomes, there can be thousands of ranges; such sets are joined as bits.

Sets are stored, shown and entered as text: `0-99,200`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from bastion.errors import SpecError
from bastion.spec.values.written import Written
from quota.pattern import pattern

MAX_TASKS = 30_000
"""Per array: as many jobs as one bastion can have admitted at the same time."""
MAX_INDEX = 999_999
"""Six digits, since an index becomes a part of names."""
MAX_RANGES = 1_000
"""Per set as text: about 10 kB, which root holds."""

MAX_CHARACTERS = 16_000
"""Per set as text: 1,000 ranges of two six-digit indices with their separators."""

_RANGE = pattern(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
"""At most nine digits: Python parses thousands of digits slowly, or refuses them."""
_STORED = pattern(r"\d{1,9}(?:-\d{1,9})?", re.ASCII)
_RUN = re.compile("1+")
_FEW = 64
"""Maximum number of ranges in sets that are joined range by range: most have one or two."""
_Pair = tuple[int, int]


class Indices(Written):
    """
    A frozen set of whole numbers from 0, as ranges.

    Args:
        pairs: (first, last) of each range, both included, in any order; they may touch or overlap.
    """

    __slots__ = ("_bits", "_pairs", "_text")
    _pairs: tuple[_Pair, ...] | None
    """The ranges; None while a set is known only by its bits."""
    _bits: int | None
    """A bit for each index; None until it is needed."""
    _text: str | None

    def __init__(self, pairs: Iterable[_Pair] = ()) -> None:
        self._set(_joined(pairs), None)

    def _set(self, pairs: tuple[_Pair, ...] | None, bits: int | None) -> None:
        object.__setattr__(self, "_pairs", pairs)
        object.__setattr__(self, "_bits", bits)
        object.__setattr__(self, "_text", None)

    @classmethod
    def _of_bits(cls, bits: int) -> Indices:
        made = cls.__new__(cls)
        made._set(None, bits)
        return made

    @property
    def pairs(self) -> tuple[_Pair, ...]:
        """(first, last) of each range."""
        if self._pairs is None:
            assert self._bits is not None
            written = bin(self._bits)[:1:-1]
            found = tuple((run.start(), run.end() - 1) for run in _RUN.finditer(written))
            object.__setattr__(self, "_pairs", found)
            return found
        return self._pairs

    @property
    def bits(self) -> int:
        """A bit for each index, which makes operations on thousands of ranges take microseconds."""
        if self._bits is None:
            object.__setattr__(self, "_bits", _bits_of(self.pairs))
        assert self._bits is not None
        return self._bits

    @property
    def ranges(self) -> int:
        """How many ranges it has."""
        if self._pairs is None:
            return (self.bits & ~(self.bits << 1)).bit_count()
        return len(self._pairs)

    @classmethod
    def of(cls, indices: Iterable[int]) -> Indices:
        """Return the set of these numbers."""
        return cls((index, index) for index in indices)

    @classmethod
    def parse(cls, text: str, *, field: str = "tasks") -> Indices:
        """
        Parse a set: `17`, `0-99`, `0-4,9`, `0-99:10` for every tenth.

        Raises:
            SpecError: It is malformed, names an index twice, or has too many.
        """
        if len(text) > MAX_CHARACTERS:
            raise SpecError(f"{field}: {len(text)} characters; at most {MAX_CHARACTERS}")
        steps = [_parsed(part.strip(), text, field) for part in text.split(",")]
        # Counted before they are created: `0-999999:2` is ten characters and half a million ranges.
        count = sum(len(each) if each.step > 1 else 1 for each in steps)
        check_ranges(field, count, repr(text[:40]))
        pairs = [pair for each in steps for pair in _pairs_of(each)]
        made = cls(pairs)
        if len(made) != sum(last - first + 1 for first, last in pairs):
            raise SpecError(f"{field}: {text[:80]!r} names an index twice; give each once")
        return made

    def __len__(self) -> int:
        if self._bits is not None:
            return self._bits.bit_count()
        return sum(last - first + 1 for first, last in self.pairs)

    def __bool__(self) -> bool:
        return bool(self._bits if self._pairs is None else self._pairs)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.pairs:
            yield from range(first, last + 1)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int) or index < 0:
            return False
        if self._are_few():
            return any(a <= index <= b for a, b in self.pairs)
        return bool(self.bits >> index & 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Indices):
            return False
        if self._bits is not None and other._bits is not None:
            return self._bits == other._bits
        return self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __str__(self) -> str:
        if self._text is None:
            text = ",".join(f"{a}-{b}" if a != b else str(a) for a, b in self.pairs)
            object.__setattr__(self, "_text", text)
            return text
        return self._text

    def __or__(self, other: Indices) -> Indices:
        if self._are_few(other):
            return Indices((*self.pairs, *other.pairs))
        return self._of_bits(self.bits | other.bits)

    def __sub__(self, other: Indices) -> Indices:
        if self._are_few(other):
            return Indices(_without(self.pairs, other.pairs))
        return self._of_bits(self.bits & ~other.bits)

    def __and__(self, other: Indices) -> Indices:
        if self._are_few(other):
            return self - (self - other)
        return self._of_bits(self.bits & other.bits)

    def _are_few(self, other: Indices | None = None) -> bool:
        """Whether it and `other` have too few ranges to be worth converting to bits."""
        return all(
            each._pairs is not None and len(each._pairs) <= _FEW
            for each in (self, other)
            if each is not None
        )

    @property
    def first(self) -> int:
        """The lowest index; the set must not be empty."""
        if self._pairs is None:
            return _lowest(self.bits)
        return self._pairs[0][0]

    def lowest(self, count: int) -> list[int]:
        """Return the `count` lowest indices in order, or all if there are fewer."""
        found: list[int] = []
        if self._pairs is None and count <= _FEW:
            bits = self.bits
            while bits and len(found) < count:
                found.append(_lowest(bits))
                bits &= bits - 1
            return found
        for first, last in self.pairs:
            found += range(first, min(last + 1, first + count - len(found)))
            if len(found) >= count:
                break
        return found

    def place_of(self, index: int) -> int:
        """Return how many indices of the set come before `index`."""
        return sum(min(last + 1, index) - first for first, last in self.pairs if first < index)

    @classmethod
    def known(cls, text: str) -> Indices:
        """
        Return the set that the bastion wrote as `text`, which may have thousands of ranges.

        Raises:
            SpecError: It is malformed.
        """
        return cls(_pair_of(part) for part in text.split(",") if part)

    @classmethod
    def _stored(cls, stored: object) -> Indices:
        if isinstance(stored, Indices):
            return stored
        if not isinstance(stored, str):
            raise SpecError(f"{stored!r} is not a set of indices; written as 0-99,200")
        return cls.known(stored)


def check_ranges(field: str, count: int, told: str) -> None:
    """
    Check that a set with `count` ranges, described by `told`, can be stored as text.

    Raises:
        SpecError: It has too many.
    """
    if count > MAX_RANGES:
        raise SpecError(
            f"{field}: {told} is {count} separate ranges; at most {MAX_RANGES}",
            hint="number the tasks without gaps, and compute what differs from the index",
        )


def _pair_of(part: str) -> _Pair:
    first, _, last = part.partition("-")
    if not _STORED.fullmatch(part) or int(last or first) < int(first):
        raise SpecError(f"{part[:40]!r} is not a range of indices; written as 0-99")
    return int(first), int(last or first)


def _pairs_of(steps: range) -> list[_Pair]:
    if steps.step == 1:
        return [(steps.start, steps.stop - 1)]
    return [(index, index) for index in steps]


def _parsed(part: str, text: str, field: str) -> range:
    found = _RANGE.fullmatch(part)
    if found is None:
        negative = ", and indices begin at 0" if part.startswith("-") else ""
        raise SpecError(
            f"{field}: {part[:40]!r} in {text[:80]!r} is not a range; allowed: 17,"
            " 0-99, 0-99:10, or"
            f" several with commas{negative}"
        )
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last < first:
        raise SpecError(f"{field}: {part!r} ends before it begins; write {last}-{first}")
    if last > MAX_INDEX:
        raise SpecError(f"{field}: {last} is too high an index; 0 to {MAX_INDEX}")
    if step < 1:
        raise SpecError(f"{field}: {part!r} has a step of {step}; 1 or more")
    return range(first, last + 1, step)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _bits_of(pairs: Sequence[_Pair]) -> int:
    if len(pairs) <= _FEW:
        return sum(((1 << (last - first + 1)) - 1) << first for first, last in pairs)
    written = bytearray(b"0") * (pairs[-1][1] + 1)
    for first, last in pairs:
        written[first : last + 1] = b"1" * (last - first + 1)
    written.reverse()
    return int(written, 2)


def _without(pairs: Iterable[_Pair], others: Iterable[_Pair]) -> Iterator[_Pair]:
    gone = list(others)
    for first, last in pairs:
        while gone and gone[0][1] < first:
            gone.pop(0)
        for a, b in gone:
            if a > last:
                break
            if a > first:
                yield first, a - 1
            first = b + 1
        if first <= last:
            yield first, last


def _joined(pairs: Iterable[_Pair]) -> tuple[_Pair, ...]:
    made: list[_Pair] = []
    for first, last in sorted(pairs):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(last, made[-1][1]))
        else:
            made.append((first, last))
    return tuple(made)


NONE = Indices()
"""The empty set."""
