"""Errors with explanations: a wrong argument, and Ctrl-C in a notebook."""

from __future__ import annotations

import pytest

from quota.explained import explained


def test_a_notebook_shows_of_ctrl_c_no_frame_of_ours() -> None:
    """The place where the call waited is of no use there; a script has the whole traceback."""

    def wait() -> None:
        raise KeyboardInterrupt

    checked = explained(wait, "wait", lambda misfit: ValueError(misfit.called))
    with pytest.raises(KeyboardInterrupt) as caught:
        checked()
    assert caught.value._render_traceback_() == ["KeyboardInterrupt"]  # type: ignore[attr-defined]
    assert caught.traceback[-1].name == "wait"
    with pytest.raises(ValueError, match="wait"):
        checked(1)
