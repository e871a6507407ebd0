"""What a notebook shows of an error."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from bastion.errors import SpecError
from bastion.store.memory import MemoryStore


def test_a_notebook_shows_the_lines_of_its_user_alone(tmp_path: Path) -> None:
    """IPython asks the error itself: the user's frames, the message, the hint, nothing of ours."""
    cell = tmp_path / "cell.py"
    cell.write_text("import bastion\n\n\ndef go():\n    bastion.Resources(h100='two')\n\n\ngo()\n")
    with pytest.raises(SpecError) as caught:
        runpy.run_path(str(cell))
    caught.value.add_note("hint: a number")
    shown = caught.value._render_traceback_()
    own = [line for line in shown if str(cell) in line]
    assert [line.splitlines()[1].strip() for line in own] == [
        "go()",
        "bastion.Resources(h100='two')",
    ]
    assert shown[-2] == f"SpecError: {caught.value.message}"
    assert shown[-1] == "hint: a number"
    assert not [line for line in shown if "/quota/" in line or "/bastion/spec" in line]


@pytest.mark.parametrize("typed", ["bastion.GPU", "bastion.Client(store=store).machine"])
def test_a_name_that_is_absent_is_shown_likewise(tmp_path: Path, typed: str) -> None:
    """An error of Python's own that Bastion words has none of its frames either."""
    cell = tmp_path / "cell.py"
    cell.write_text(f"import bastion\n\n{typed}\n")
    store = MemoryStore(lambda: 0.0)
    with pytest.raises((ImportError, AttributeError)) as caught:
        runpy.run_path(str(cell), {"store": store})
    shown = caught.value._render_traceback_()  # type: ignore[union-attr]
    assert shown[-2].splitlines()[1].strip() == typed
    assert shown[-1] == f"{type(caught.value).__name__}: {caught.value}"
    assert not [line for line in shown if "__getattr__" in line]
