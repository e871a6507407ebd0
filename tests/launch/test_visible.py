"""Text of a job, a name or a server never controls a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from launch.screen.visible import TerminalBytes, all_visible, visible

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202egnp.exe\u2066\x08\x7f"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b2J\u202egnp.exe\u2066\x08\x7f"
REPOSITORY = Path(__file__).parents[2]


def test_control_characters_are_shown() -> None:
    """Control sequences of terminals and direction marks are shown as escapes."""
    assert visible(HOSTILE) == SHOWN
    assert visible("plain text, ünïcode 日本\ttab\nline") == "plain text, ünïcode 日本\ttab\nline"


def test_the_colours_of_the_command_are_left() -> None:
    """The colors of the command remain; no other sequence does."""
    assert visible("\x1b[32mgood\x1b[0m") == "\x1b[32mgood\x1b[0m"
    assert visible("\x1b[8mhidden") == r"\x1b[8mhidden"


@given(st.text())
def test_nothing_unsafe_is_left(text: str) -> None:
    """For any text, no control character but tab, line end and the colors remains."""
    left = visible(text)
    assert not {c for c in left if ord(c) < 32 and c not in "\t\n\x1b"}
    assert "\x7f" not in left


@given(st.binary(), st.integers(0, 20))
def test_a_jobs_bytes_are_safe_however_they_come(data: bytes, size: int) -> None:
    """Output of a job in any pieces is made safe as if it were one piece."""
    whole = TerminalBytes().safe(data, final=True)
    parts = TerminalBytes()
    cut = b"".join(parts.safe(data[at : at + size + 1]) for at in range(0, len(data), size + 1))
    assert cut + parts.safe(b"", final=True) == whole


def test_progress_bars_pass_and_titles_do_not() -> None:
    """Colors and carriage returns of a job reach the terminal; control sequences do not."""
    bar = b"\r\x1b[32m50%\x1b[0m"
    assert TerminalBytes().safe(bar) == bar
    assert TerminalBytes().safe(HOSTILE.encode(), final=True) == SHOWN.encode()


PROGRAM = """
import sys
from bastion.clock import VirtualClock
from launch.screen.notes import note, tell
from launch.screen.printout import Printout
from launch.screen.render import Column, Output, write_lines
hostile = sys.argv[1]
write_lines([hostile])
Output(terminal=sys.stdout.isatty()).show(
    "jobs", [hostile], [Column(title="TEXT", text=str)], name=str
)
Output().fields([("text", hostile)])
note(hostile)
tell(hostile, hostile)
Printout(VirtualClock()).write(hostile.encode())
"""


def test_every_text_for_a_terminal_is_safe() -> None:
    """Lines, tables, fields, notes, errors and logs never control a terminal."""
    main, other = pty.openpty()
    words = [sys.executable, "-c", PROGRAM, HOSTILE]
    with subprocess.Popen(words, stdout=other, stderr=other, cwd=REPOSITORY) as ran:
        os.close(other)
        said = b""
        try:
            while part := os.read(main, 65536):
                said += part
        except OSError:  # how a terminal whose other end is closed ends
            pass
        assert ran.wait(30) == 0
    os.close(main)
    assert said.count(rb"\x1b]0;owned\x07") == 7
    assert b"\x1b]" not in said
    assert b"\x07" not in said
    assert HOSTILE.encode() not in said


def test_logs_on_a_pipe_are_exact() -> None:
    """A pipe gets every byte that a job printed, and safe lines about it."""
    words = [sys.executable, "-c", PROGRAM, HOSTILE]
    ran = subprocess.run(words, capture_output=True, check=True, cwd=REPOSITORY)
    *lines, log = ran.stdout.split(b"\n")
    assert log == HOSTILE.encode()
    assert not any(b"\x1b" in line for line in (*lines, ran.stderr))


def test_one_unsafe_cell_of_many_is_escaped() -> None:
    """A column is checked as a whole, and then each of its texts if one is unsafe."""
    assert all_visible(["a", "b"]) == ["a", "b"]
    assert all_visible(["a", "b\x1b[2J", "c"]) == ["a", "b\\x1b[2J", "c"]
