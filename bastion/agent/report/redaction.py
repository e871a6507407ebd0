"""
Mask the values of secrets in a log, byte for byte, so that offsets stay valid.

* What is masked depends only on the log's bytes, not on when or how they were cut into writes or
  segments: a second try of a segment, by any agent, has the same bytes.
* Bytes at the end that may be the beginning of a value wait until that is known (`settled`). If the
  log ends with them, they are masked if they are at least as long as a secret must be.
* A value of several lines is also searched line by line, since tools print it that way. Line ends
  stay.
* If there were secrets and their values are no longer known, everything except line ends is masked.

Only the exact bytes are recognized: base64, or a value spelled backwards, is not. This prevents
accidents; it cannot stop a program that has the value from printing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bastion.spec.secret import MIN_SECRET_BYTES

MASK = b"*"

Read = Callable[[int, int], bytes]
"""Returns the bytes of a log between two offsets, as far as they were written."""


class Redaction:
    """
    The masking of the logs of one host.

    Args:
        values: The secrets' values; None: there are some, but they are no longer known.
    """

    def __init__(self, values: Iterable[str] | None) -> None:
        self._is_blind = values is None
        texts = sorted(set(_patterns(values or ())))
        self._patterns = tuple(map(Pattern, texts))
        self._margin = max(map(len, texts), default=1) - 1

    @property
    def is_blind(self) -> bool:
        """Whether there are values that are no longer known."""
        return self._is_blind

    def settled(self, size: int, read: Read) -> int:
        """Return the offset up to which the masking of a growing log of `size` bytes is final."""
        if not self._patterns:
            return size
        return size - self._begun(read(max(0, size - self._margin), size))

    def masked(self, first: int, end: int, read: Read, *, log_end: int | None = None) -> bytes:
        """
        Return the bytes from `first` to `end`, masked.

        Args:
            first: Offset of the first byte.
            end: Offset after the last; at most what `settled` returned, or the end of the log.
            read: Reads the unmasked log.
            log_end: The final end of the log; None while it grows.
        """
        if self._is_blind:
            return _masked(read(first, end))
        if not self._patterns:
            return read(first, end)
        begin = max(0, first - self._margin)
        data = read(begin, end + self._margin)
        masked = bytearray(data)
        for at, after in self._found(data):
            masked[at:after] = _masked(data[at:after])
        if log_end is not None and begin + len(data) >= log_end:
            begun = self._begun(data)
            if begun >= MIN_SECRET_BYTES:
                masked[len(data) - begun :] = _masked(data[len(data) - begun :])
        return bytes(masked[first - begin : end - begin])

    def name(self, text: str) -> str:
        """Return a short text that a job chose, masked like the end of a log."""
        data = text.encode()
        return self.masked(0, len(data), lambda at, to: data[at:to], log_end=len(data)).decode()

    def _found(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield (first, end) of the parts of `data` that values cover."""
        for pattern in self._patterns:
            yield from pattern.covered(data)

    def _begun(self, data: bytes) -> int:
        """Return how many bytes at the end of `data` are a proper prefix of a value."""
        return max((pattern.begun(data) for pattern in self._patterns), default=0)


class Pattern:
    """
    One masked text, found in linear time, even if it is repetitive.

    Source: Knuth, Morris and Pratt (1977), "Fast pattern matching in strings": the failure
    function, and the period that follows from it.
    """

    __slots__ = ("_failure", "_period", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._failure = _failure_function(text)
        self._period = len(text) - self._failure[-1]
        """The least distance between two overlapping occurrences of the text."""

    def covered(self, data: bytes) -> Iterator[tuple[int, int]]:
        """
        Yield (first, end) of every part of `data` that occurrences of the text cover.

        Occurrences at a distance of one period are merged: for a text of one repeated letter, every
        byte of a long line would start another occurrence.
        """
        at = data.find(self.text)
        while at >= 0:
            end = at + len(self.text)
            unit = data[end - self._period : end]
            while data.startswith(unit, end):
                end += self._period
            yield at, end
            at = data.find(self.text, end - len(self.text) + 1)

    def begun(self, data: bytes) -> int:
        """Return how many bytes at the end of `data` are a proper prefix of the text."""
        matched = 0
        for byte in data[max(0, len(data) - len(self.text) + 1) :]:
            while matched and self.text[matched] != byte:
                matched = self._failure[matched - 1]
            matched += self.text[matched] == byte
        return matched


def _failure_function(text: bytes) -> list[int]:
    """Return the length of the longest proper border of each prefix of `text`."""
    failure = [0] * len(text)
    matched = 0
    for index in range(1, len(text)):
        while matched and text[index] != text[matched]:
            matched = failure[matched - 1]
        matched += text[index] == text[matched]
        failure[index] = matched
    return failure


def _patterns(values: Iterable[str]) -> Iterator[bytes]:
    for value in values:
        whole = value.encode()
        yield whole
        yield from (line for line in whole.splitlines() if len(line) >= MIN_SECRET_BYTES)


def _masked(data: bytes) -> bytes:
    return b"\n".join(MASK * len(line) for line in data.split(b"\n"))
