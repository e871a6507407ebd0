"""How a notebook shows an error, and how it reaches another process."""

from __future__ import annotations

import pickle
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from bastion import BusyError, InvalidCodeError, Process
from bastion.client.change.quota_file import parsed_quota
from bastion.client.submit.launch_file import parse_launch
from bastion.errors import BastionError, FencedError, OversizeError, SpecError, StoreError
from bastion.service.config.pool_config import parse_config
from bastion.spec import seconds_of
from bastion.store.memory import MemoryStore
from quota.file.config import parse as quota_of
from quota.file.errors import QuotaError


def test_a_notebook_shows_the_lines_of_its_user_alone(tmp_path: Path) -> None:
    """IPython asks the error itself: the user's frames, the message and the hint are shown."""
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
    """A worker that raises it does not break its process pool."""
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), str(there), there.args) == (type(error), str(error), error.args)
    assert vars(there) == vars(error)


HUGE = "x" * 1_000_000
LAUNCH = f"""\
name = "a"
[[jobs]]
max_runtime = "{HUGE}"
[[jobs.processes]]
command = ["x"]
"""


@pytest.mark.parametrize(
    ("problem", "begin", "end"),
    [
        (
            lambda: seconds_of("max_runtime", HUGE),
            "max_runtime: 'xxx",
            "a number and a unit, such as 90s, 8h or 2d",
        ),
        (lambda: Process(HUGE), "command: ", ""),
        (
            lambda: parse_launch(LAUNCH, source="f"),
            "f: line 3: ",
            "a number and a unit, such as 90s, 8h or 2d",
        ),
        (lambda: parse_config(f"[pools.a]\n{HUGE} = 1"), "", ""),
        (lambda: parsed_quota(f"[total_resources]\n{HUGE} = 'x'"), "quota file: line ", ""),
        (lambda: quota_of(f"[total_resources]\n{HUGE} = 'x'"), "line ", ""),
    ],
)
def test_a_problem_with_a_value_of_megabytes_is_cut(
    problem: Callable[[], object], begin: str, end: str
) -> None:
    """The field at its begin and what is allowed at its end stay."""
    with pytest.raises((SpecError, QuotaError)) as wrong:
        problem()
    assert isinstance(wrong.value, SpecError | QuotaError)
    told = list(map(str, wrong.value.problems))
    assert all(len(each) < 1100 for each in told)
    (cut,) = [each for each in told if " characters … " in each][:1]
    assert cut.startswith(begin)
    assert cut.endswith(end)
    assert str(wrong.value).count(HUGE) == 0


def test_a_problem_of_usual_length_is_whole() -> None:
    """A list of what is allowed may be long, and is not cut."""
    problem = f"pool: 'x' is unknown, allowed are {', '.join(f'pool-{n}' for n in range(100))}"
    assert SpecError(problem).problems == (problem,)
