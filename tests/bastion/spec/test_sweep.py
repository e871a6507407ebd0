"""The parameters of each task of a sweep: a pure function of the sweep and its index."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from bastion.errors import SpecError
from bastion.records.coding.codec import decode, encode
from bastion.spec import (
    Array,
    Choice,
    Job,
    Launch,
    LogUniform,
    Process,
    Sample,
    Sweep,
    Uniform,
    job_of_task,
)
from bastion.spec.task_job import task_environment

PINNED = [
    {"lr": 0.0469384, "drop": 0.10436, "opt": "sgd"},
    {"lr": 0.0201771, "drop": 0.424189, "opt": "sgd"},
    {"lr": 0.000713175, "drop": 0.203708, "opt": "sgd"},
]
SAMPLE = Sample(
    1000,
    seed=7,
    draw={"lr": LogUniform(1e-5, 1e-1), "drop": Uniform(0.0, 0.5), "opt": Choice(["adam", "sgd"])},
)


def swept(sweep: Sweep, *command: str, **env: str) -> Launch:
    """Return a launch of one process for a sweep."""
    job = Job(processes=(Process(list(command) or ["true"], env=env),))
    return Launch(name="s", jobs=(job,), sweep=sweep)


def test_a_grid_is_every_combination_in_the_written_order() -> None:
    """The last parameter changes first."""
    sweep = Sweep(grid={"lr": [0.1, 0.01], "seed": [1, 2, 3]})
    assert [sweep.point(i) for i in range(sweep.count)] == [
        {"lr": lr, "seed": seed} for lr in (0.1, 0.01) for seed in (1, 2, 3)
    ]


def test_zip_takes_its_lists_side_by_side() -> None:
    """The first of each list, then the second of each; in a grid, this is the inner loop."""
    sweep = Sweep(grid={"seed": [1, 2]}, zip={"layers": [2, 4, 8], "width": [512, 256, 128]})
    points = [sweep.point(i) for i in range(sweep.count)]
    assert len(points) == 6
    assert points[1] == {"seed": 1, "layers": 4, "width": 256}
    assert points[5] == {"seed": 2, "layers": 8, "width": 128}


def test_a_sample_is_the_same_everywhere_and_always() -> None:
    """Drawn points are fixed: they follow only from seed, number and name by SHA-256."""
    sweep = Sweep(sample=SAMPLE)
    assert [sweep.point(i) for i in (0, 1, 999)] == PINNED


def test_a_sample_covers_its_ranges() -> None:
    """Uniform in the number, log-uniform in its order of magnitude, every choice about as often."""
    points = [SAMPLE.point(i) for i in range(1000)]
    rates = [float(point["lr"]) for point in points]
    assert all(1e-5 <= rate <= 1e-1 for rate in rates)
    for low in (1e-5, 1e-4, 1e-3, 1e-2):
        assert 200 < sum(low <= rate < 10 * low for rate in rates) < 300
    drops = [float(point["drop"]) for point in points]
    assert all(0 <= drop <= 0.5 for drop in drops)
    assert 220 < sum(drop < 0.125 for drop in drops) < 280
    assert 440 < sum(point["opt"] == "adam" for point in points) < 560


def test_another_seed_draws_other_points() -> None:
    """The points of one seed do not repeat either."""
    other = Sample(1000, seed=8, draw=SAMPLE.draw)
    assert SAMPLE.point(0) != other.point(0)
    assert len({str(SAMPLE.point(i)) for i in range(1000)}) == 1000


def test_parameters_stand_in_commands_and_variables() -> None:
    """`{name}` is replaced as in text or JSON; doubled braces are braces."""
    sweep = Sweep(grid={"lr": [1e-05], "on": [True], "name": ["a b"], "n": [3]})
    launch = swept(sweep, "run", "--lr={lr}", "{name}", '{{"n": {n}}}', FLAG="{on}")
    process = job_of_task(launch, 0).processes[0]
    assert process.command == ("run", "--lr=1e-05", "a b", '{"n": 3}')
    assert process.env == {"FLAG": "true"}


def test_a_shell_line_is_filled_too() -> None:
    """With `shell=True`, the line has its parameters."""
    job = Job(processes=(Process("echo {x} | cat", shell=True),))
    launch = Launch(name="s", jobs=(job,), sweep=Sweep(grid={"x": [1, 2]}))
    assert job_of_task(launch, 1).processes[0].command == ("echo 2 | cat",)


def test_a_clean_up_is_filled_too() -> None:
    """The command that runs at the end has the parameters too."""
    job = Job(processes=(Process(["run"]),), on_end=("rm", "-rf", "/scratch/{x}"))
    launch = Launch(name="s", jobs=(job,), sweep=Sweep(grid={"x": [1, 2]}))
    assert job_of_task(launch, 1).on_end == ("rm", "-rf", "/scratch/2")
    with pytest.raises(SpecError, match=r"on_end: \{x\} is not a parameter of the sweep"):
        Launch(name="s", jobs=(job,), sweep=Sweep(grid={"y": [1]}))


def test_without_a_sweep_a_brace_is_a_brace() -> None:
    """An array alone replaces nothing."""
    job = Job(processes=(Process(["awk", "{print $1}"]),))
    launch = Launch(name="s", jobs=(job,), array=Array("0-9"))
    assert job_of_task(launch, 3) == job


def test_a_task_is_told_what_it_is() -> None:
    """It gets its index, their number, its place among them, and its parameters in three forms."""
    sweep = Sweep(grid={"lr": [0.1, 0.01], "opt": ["adam"]})
    launch = Launch(name="s", jobs=swept(sweep).jobs, sweep=sweep, array=Array("1"))
    told = task_environment(launch, 1)
    assert json.loads(told.pop("BASTION_PARAMS")) == {"lr": 0.01, "opt": "adam"}
    assert told == {
        "BASTION_TASK_INDEX": "1",
        "BASTION_TASK_COUNT": "1",
        "BASTION_TASK_NUMBER": "0",
        "BASTION_PARAM_LR": "0.01",
        "BASTION_PARAM_OPT": "adam",
    }
    assert task_environment(launch, None) == {}


def test_a_sweep_survives_its_spec() -> None:
    """Numbers stay whole or not, text stays text, draws stay draws."""
    sweep = Sweep(grid={"a": [1, 1.0, "1", True]}, zip={"b": ["x"]}, sample=SAMPLE, at_once=4)
    read = decode(Launch, encode(swept(sweep)), key="x")
    assert read.sweep is not None
    for task in (0, 1500, sweep.count - 1):
        told = [(name, type(each), each) for name, each in read.sweep.point(task).items()]
        assert told == [(name, type(each), each) for name, each in sweep.point(task).items()]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda: Sweep(), "sweep: no parameter given; allowed: grid, zip and sample"),
        (lambda: Sweep(grid={"a": []}), "sweep.grid.a: has no values; give at least one"),
        (
            lambda: Sweep(zip={"a": [1], "b": [1, 2]}),
            "sweep.zip: its lists are combined element by element and must have the same length: a"
            " has 1, b has 2",
        ),
        (
            lambda: Sweep(grid={"a": [1, 2, 1]}),
            "sweep.grid.a: 1 is given 2 times, which would create equal tasks",
        ),
        (
            lambda: Sweep(zip={"a": [1, 1, 1], "b": ["x", "y", "x"]}),
            "sweep.zip: 1, 'x' is given 2 times, which would create equal tasks",
        ),
        (
            lambda: Sweep(grid={"model.lr": [1]}),
            "sweep: 'model.lr' is not a valid name of a parameter; letters, digits and _, up to 63,"
            " and no digit first, as model_lr",
        ),
        (
            lambda: Sweep(grid={"lr": [1]}, zip={"LR": [2]}),
            "sweep: two parameters are called lr, LR; names must differ by more than case",
        ),
        (
            lambda: Sweep(grid={"a": range(400), "b": range(400)}),
            "sweep: it makes 160000 tasks; at most 30000",
        ),
        (lambda: Sweep(grid={"a": [float("nan")]}), "nan is not a number that can be written"),
        (lambda: Sweep(grid={"a": [1]}, at_once=0), "sweep.at_once: 0 is not allowed; 1 or more"),
        (lambda: Sweep(grid={"a": "xyz"}), "sweep.grid.a: 'xyz' is one string; give a list"),
        (lambda: Sample(0, seed=1, draw={"a": Uniform(0, 1)}), "count: 0 is not allowed"),
        (lambda: Sample(3, seed=1, draw={}), "draw: names no parameter"),
        (lambda: Uniform(1, 0), "low: 1 to high 0 is not a range; low must be below high"),
        (lambda: Uniform(-1e308, 1e308), "low and high must be numbers up to 1e+300"),
        (lambda: Uniform(0, 10**400), "low and high must be numbers up to 1e+300"),
        (lambda: Uniform(0, float("inf")), "low and high must be numbers up to 1e+300"),
        (lambda: Uniform(0, float("nan")), "low: 0 to high nan is not a range"),
        (lambda: LogUniform(0, 1), "low: 0 is not above zero, and has no logarithm"),
        (lambda: Choice([]), "of: has no values; give at least one"),
        (
            lambda: swept(Sweep(grid={"lr": [1]}), "run", "--lr={rl}"),
            "jobs.0.processes.0.command: {rl} is not a parameter of the sweep (lr);"
            " for braces write"
            " {{rl}}",
        ),
        (
            lambda: swept(Sweep(grid={"lr": [1]}), "run", "{"),
            "jobs.0.processes.0.command: a lone { in '{'; for a brace write {{",
        ),
        (
            lambda: swept(Sweep(grid={"lr": [1]}), "run", X="{y}"),
            "jobs.0.processes.0.env.X: {y} is not a parameter of the sweep (lr)",
        ),
        (
            lambda: swept(Sweep(grid={"a": ["x" * 60_000]}), "run", "{a}", "{a}"),
            "jobs.0.processes.0.command: 120006 bytes is too long; at most 100000",
        ),
        (
            lambda: swept(Sweep(grid={"a": ["x" * 50_000, "\u5b57" * 40_000]}), "run", "{a}"),
            "jobs.0.processes.0.command: 120005 bytes is too long; at most 100000",
        ),
    ],
)
def test_a_wrong_sweep_is_refused(made: object, problem: str) -> None:
    """Each error is raised when the sweep is made, and says what is allowed."""
    with pytest.raises(SpecError) as caught:
        made()  # type: ignore[operator]
    assert any(problem in each for each in caught.value.problems), caught.value.problems


@pytest.mark.parametrize("where", ["command", "env", "job env", "on_end"])
def test_what_a_sweep_fills_is_measured_before_it_is_made(where: str) -> None:
    """If parameters would produce gigabytes of text, the sweep is refused by its size."""
    text, sweep = "{x}" * 5_000, Sweep(grid={"x": ["a", "b" * 1_000_000]})
    process = Process(["echo", text] if where == "command" else ["echo"])
    if where == "env":
        process = Process(["echo"], env={"X": text})
    job = Job(
        processes=[process],
        env={"X": text} if where == "job env" else {},
        on_end=["echo", text] if where == "on_end" else (),
    )
    tracemalloc.start()
    try:
        with pytest.raises(SpecError, match=r"50000\d{5} bytes is too long"):
            Launch(name="x", jobs=[job], sweep=sweep)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_narrow_range_of_large_numbers_is_drawn_from_all_over() -> None:
    """Six digits would leave only two values in a range of ten at a million."""
    draw: dict[str, Uniform | LogUniform] = {
        "step": Uniform(1_000_000, 1_000_010),
        "at": LogUniform(1_000_000, 1_000_010),
    }
    sample = Sample(50, seed=0, draw=draw)
    for name in draw:
        values = {sample.point(at)[name] for at in range(50)}
        assert len(values) == 50
        assert all(isinstance(x, float) and 1_000_000 <= x <= 1_000_010 for x in values)


def test_a_wide_range_keeps_six_digits() -> None:
    """Earlier draws are repeated."""
    assert Uniform(0.1, 0.2).drawn(1 / 3) == 0.133333
    assert Uniform(-1, 1).drawn(1 / 3) == -0.333333
    assert LogUniform(1e-6, 1).drawn(1 / 3) == 0.0001
