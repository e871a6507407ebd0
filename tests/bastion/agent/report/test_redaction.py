"""Masking depends only on the log, however it is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bastion.agent.report.redaction import Pattern, Read, Redaction
from bastion.spec.secret import MAX_SECRET_BYTES

VALUES = ("abcabcab", "cabcabca-1", "first line\nsecond line\n-")


def reader(log: bytes) -> Read:
    """Return a function that reads `log`."""
    return lambda first, end: log[first:end]


def whole(log: bytes, values: tuple[str, ...] = VALUES) -> bytes:
    """Return the log, masked as a whole."""
    return Redaction(values).masked(0, len(log), reader(log), log_end=len(log))


def test_every_value_is_masked_and_no_offset_moves() -> None:
    """Overlapping values are masked as one; everything else stays in its place."""
    log = b"x abcabcabcabca-1 y abcabc z\n"
    assert whole(log) == b"x *************** y abcabc z\n"


def test_a_value_of_lines_is_masked_line_by_line() -> None:
    """A key that is printed indented is masked too; short lines and line ends stay."""
    log = b"  first line\n  second line\n  -\n"
    assert whole(log) == b"  **********\n  ***********\n  -\n"


def test_a_blind_redaction_leaves_only_lines() -> None:
    """If the values are unknown, only the shape of a log is shown."""
    blind = Redaction(None)
    assert blind.masked(0, 6, reader(b"ab\ncd\n")) == b"**\n**\n"
    assert blind.settled(6, reader(b"ab\ncd\n")) == 6


PARTS = st.lists(
    st.sampled_from(["a", "b", "c", "abc", "abcabcab", "-1", "\n", "first line", "second", " line"])
)


@given(PARTS, st.data())
def test_masking_does_not_depend_on_how_a_log_is_cut(parts: list[str], data: st.DataObject) -> None:
    """The result is the same for all pieces in which a log is written and shipped."""
    log = "".join(parts).encode()
    redaction = Redaction(VALUES)
    shipped, written = b"", 0
    while written < len(log):
        written += data.draw(st.integers(1, len(log) - written))
        settled = redaction.settled(written, reader(log[:written]))
        while len(shipped) < settled and data.draw(st.booleans()):
            end = data.draw(st.integers(len(shipped) + 1, settled))
            # Later output may already exist when a piece is read.
            there = data.draw(st.integers(written, len(log)))
            shipped += redaction.masked(len(shipped), end, reader(log[:there]))
    shipped += redaction.masked(len(shipped), len(log), reader(log), log_end=len(log))
    assert shipped == whole(log)
    assert len(shipped) == len(log)
    assert not any(value.encode() in shipped for value in VALUES)


def test_a_value_that_repeats_costs_no_more_than_another() -> None:
    """A covered stretch is found as a whole, not once per byte that could begin a value."""
    text, data = b"a" * MAX_SECRET_BYTES, b"a" * (1 << 20)
    assert list(Pattern(text).covered(b"x" + data + b"y")) == [(1, 1 + len(data))]
    assert list(Pattern(b"ab" * 100).covered(b"ab" * 300 + b"a")) == [(0, 600)]
    redaction = Redaction((text.decode(),))
    assert redaction.masked(0, len(data), reader(data)) == b"*" * len(data)
    assert redaction.settled(len(data), reader(data)) == len(data) - len(text) + 1


@given(st.text("ab", min_size=1, max_size=8), st.text("ab", max_size=60))
def test_what_is_covered_is_what_occurs(text: str, data: str) -> None:
    """Exactly the bytes of occurrences are covered, with the longest possible beginning."""
    pattern = Pattern(text.encode())
    covered = {at for first, end in pattern.covered(data.encode()) for at in range(first, end)}
    occurs = [at for at in range(len(data)) if data.startswith(text, at)]
    assert covered == {at + n for at in occurs for n in range(len(text))}
    begun = max(n for n in range(len(text)) if data.endswith(text[:n]))
    assert pattern.begun(data.encode()) == begun
