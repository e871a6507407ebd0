"""The bar of a long step, on a terminal."""

from __future__ import annotations

import io

import pytest

from launch.screen import progress


class Terminal(io.StringIO):
    """A file that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.mark.parametrize("total", [1, 0])
def test_a_bar_never_shows_another_total(monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    """This includes its first frame, when the total is unknown or one."""
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(progress, "_AFTER_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with progress.bar(shown=True) as draw:
        draw("waiting", 0, total)
    assert "waiting" in screen.getvalue()
    assert "/100" not in screen.getvalue()
