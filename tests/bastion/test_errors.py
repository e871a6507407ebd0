"""What a notebook shows of an error, and what reaches another process."""

from __future__ import annotations

import pickle
import runpy
from pathlib import Path

import pytest

from bastion import BusyError, InvalidCodeError
from bastion.errors import BastionError, FencedError, OversizeError, SpecError, StoreError
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
    shown = caught.value._render_traceback_()  # type: ignore[attr-defined]
    assert shown[-2].splitlines()[1].strip() == typed
    assert shown[-1] == f"{type(caught.value).__name__}: {caught.value}"
    assert not [line for line in shown if "__getattr__" in line]


@pytest.mark.parametrize(
    "error",
    [
        BastionError("m", hint="h", output=("a", "b")),
        SpecError("a", "b", hint="h"),
        InvalidCodeError("a", "b", hint="h"),
        BusyError("m", ()),
        FencedError(ours=1, theirs=2),
        OversizeError("key", limit_bytes=3),
        StoreError("m", hint="h", retry_after_s=2.0),
    ],
)
def test_an_error_reaches_another_process_whole(error: BastionError) -> None:
    """A worker that raises it does not end the pool of its workers."""
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), str(there), there.args) == (type(error), str(error), error.args)
    assert vars(there) == vars(error)
