"""Durations and sizes as people write and read them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bastion.errors import SpecError
from bastion.records.settings.notification import iso
from bastion.spec import bytes_of, seconds_of, text_of_bytes, text_of_seconds
from bastion.spec.values.quantity import text_of_cost, text_of_hours, text_of_number, whole_gib_of


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0),
        (1.5, 1.5),
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        (" 2d ", 172800.0),
        ("1w", 604800.0),
    ],
)
def test_durations(written: float | str, seconds: float) -> None:
    """Numbers are seconds; text is numbers with units, which add up."""
    assert seconds_of("f", written) == seconds


@pytest.mark.parametrize(
    "written", ["", "8", "8 h", "h", "-1s", "1y", "1h 30m", "9" * 400 + "h", "115741d"]
)
def test_no_durations(written: str) -> None:
    """Text without units, or with unknown ones, is refused by field and value."""
    with pytest.raises(SpecError, match=r"^f: .* is not a duration"):
        seconds_of("f", written)


@pytest.mark.parametrize(
    "written", [-1, float("inf"), float("nan"), True, 10**10 + 1, 10**400, [1]]
)
def test_no_seconds(written: Any) -> None:
    """A number that is not a duration is refused."""
    with pytest.raises(SpecError, match=r"^f: .* is not a duration"):
        seconds_of("f", written)


def test_the_longest_duration_ends_on_a_date() -> None:
    """Views show until when a job may run: a time without a date would break them for everybody."""
    longest_s = seconds_of("f", "115740d")
    year_2100 = 4_102_444_800.0
    assert iso(year_2100 + 10 * longest_s).startswith("5268-")


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (5, 5),
        ("512", 512),
        ("512B", 512),
        ("64GiB", 64 * 1024**3),
        ("500MB", 500 * 1000**2),
        ("1.5 KiB", 1536),
        ("2PB", 2 * 1000**5),
    ],
)
def test_sizes(written: int | str, size: int) -> None:
    """Numbers are bytes; text has decimal or binary units."""
    assert bytes_of("f", written) == size


@pytest.mark.parametrize("written", ["", "GiB", "1gib", "1 G", "-1", "9" * 400, -1, True, 1.5])
def test_no_sizes(written: int | str) -> None:
    """What is no whole number of bytes is refused by field and value."""
    with pytest.raises(SpecError, match=r"^f: .* is not a size"):
        bytes_of("f", written)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.44, "0.4s"),
        (9.96, "10s"),
        (42, "42s"),
        (60, "1m"),
        (185, "3m 5s"),
        (7800, "2h 10m"),
        (3600, "1h"),
        (273600, "3d 4h"),
        (-90, "-1m 30s"),
    ],
)
def test_seconds_in_words(seconds: float, text: str) -> None:
    """A duration is shown in its two largest units."""
    assert text_of_seconds(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (3482, "3.4 KiB"),
        (64 * 1024**3, "64 GiB"),
        (2**60, "1048576 TiB"),
    ],
)
def test_bytes_in_words(size: int, text: str) -> None:
    """A size is shown in one unit."""
    assert text_of_bytes(size) == text


@given(st.floats(0, 1e9))
def test_any_time_has_words(seconds: float) -> None:
    """Every duration has a text with a similar value."""
    text = text_of_seconds(seconds)
    said = seconds_of("f", text.replace(" ", ""))
    assert said == pytest.approx(seconds, rel=0.1, abs=0.6)


@pytest.mark.parametrize(
    ("written", "gib"), [("200GiB", 200), ("500GB", 466), ("1GiB", 1), ("1.5TiB", 1536), ("0", 0)]
)
def test_a_size_in_whole_gib_is_rounded_up(written: str, gib: int) -> None:
    """A disk is never smaller than requested."""
    assert whole_gib_of("disk", written) == gib


@pytest.mark.parametrize("written", ["500", "5", "1MiB"])
def test_a_size_below_a_gib_is_a_number_without_its_unit(written: str) -> None:
    """A disk of 500 is meant to have 500 GiB, and is refused rather than created with one."""
    with pytest.raises(SpecError, match=f"disk: '{written}' is less than 1GiB; .* as 200GiB"):
        whole_gib_of("disk", written)


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0.0, "0"),
        (0.0004, "< 0.001"),
        (0.0506, "0.0506"),
        (0.25, "0.25"),
        (12.345, "12.3"),
        (99.96, "100"),
        (1234.5, "1,234"),
    ],
)
def test_hours_keep_three_digits(hours: float, text: str) -> None:
    """Device minutes are never shown as zero, and thousands of hours have no fraction."""
    assert text_of_hours(hours) == text


@pytest.mark.parametrize(
    ("cost", "text"),
    [(0.0, "0.00"), (0.0004, "< 0.01"), (0.005, "0.01"), (12.345, "12.35"), (1234.5, "1,234.50")],
)
def test_a_cost_below_a_cent_is_not_shown_as_nothing(cost: float, text: str) -> None:
    """Only a cost of zero is 0.00."""
    assert text_of_cost(cost) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1_234_567.0, "1234567"),
        (3, "3"),
        (-20.0, "-20"),
        (0.012345678, "0.0123457"),
        (1e30, "1e+30"),
    ],
)
def test_a_reported_count_is_told_in_full(number: float, text: str) -> None:
    """The step of a long run changes with each report, not with every tenth."""
    assert text_of_number(number) == text
