"""The policy that simulates others ahead: it wins by switching, and knows no more than it may."""

from __future__ import annotations

import pytest

from bastion.errors import SpecError
from bastion.simulator import TraceJob, Workload, simulate
from bastion.simulator.cluster.words import cluster_of
from bastion.simulator.fitting import fitted
from bastion.simulator.policies.synthesis import Synthesis
from bastion.simulator.run import made
from bastion.simulator.setup import Setup
from bastion.simulator.synthesizer import metric

ROUND_S = 60.0
LOOKS = Synthesis(every_s=600, ahead_s=1e6)


def phases(*, limits: bool) -> Workload:
    """First equal jobs, for which turns are bad; then short jobs behind long ones."""
    rows = [(0.0, 1800.0)] * 4
    rows += [(20_000.0, 7200.0)] * 2 + [(20_600.0, 120.0)] * 8
    return Workload(
        jobs=[
            TraceJob(
                name=f"j{at}",
                submit_s=submit,
                duration_s=length,
                max_runtime_s=length + 1e-3 if limits else None,
            )
            for at, (submit, length) in enumerate(rows)
        ]
    )


@pytest.mark.parametrize("limits", [True, False])
def test_switching_beats_every_candidate(*, limits: bool) -> None:
    """Time limits tell it the lengths, or the study does: then no order alone is as good."""
    looks = LOOKS if limits else Synthesis(every_s=600, ahead_s=1e6, knows_lengths=True)
    study = simulate(
        phases(limits=limits),
        machines="1x1",
        order=["fifo", "las"],
        policy="synthesize:fifo,las",
        synthesis=looks,
        round_s=ROUND_S,
        cores=1,
    )
    fifo, las, both = (each.jct_s["mean"] for each in study.measures)
    assert both < min(fifo, las)
    assert study.results[2].label == "synthesize:fifo,las"
    assert "fifo" in study.results[2].settings["synthesized"]


def choices(lengths: list[float], *, knows_lengths: bool) -> list[tuple[float, str]]:
    """What is chosen before any job ends: they differ in nothing that can be seen."""
    jobs = [
        TraceJob(name=f"j{at}", submit_s=60.0 * at, duration_s=s) for at, s in enumerate(lengths)
    ]
    setup = Setup(
        cluster=cluster_of("1x1"),
        policy="synthesize:fifo,las",
        synthesis=Synthesis(every_s=600, ahead_s=1e6, knows_lengths=knows_lengths),
        round_s=ROUND_S,
    )
    engine, synthesizer = made(setup, fitted(Workload(jobs=jobs), setup.cluster))
    assert synthesizer is not None
    while engine.step() and engine.now < 6000:
        pass
    assert not engine.ended
    return synthesizer.choices


def test_it_does_not_look_at_lengths() -> None:
    """Jobs that differ only in what is not known yet are ordered alike, unless it is told more."""
    one, other = [9000.0, 9000.0, 9000.0], [90_000.0, 7000.0, 8000.0]
    assert choices(one, knows_lengths=False) == choices(other, knows_lengths=False)
    assert {name for _, name in choices(one, knows_lengths=True)} == {"fifo"}
    assert "las" in {name for _, name in choices(other, knows_lengths=True)}


def test_equal_studies_switch_equally() -> None:
    """It follows from the workload alone."""
    one, two = (choices([7000.0, 8000.0, 9000.0], knows_lengths=True) for _ in range(2))
    assert one == two
    assert [at for at, _ in one] == sorted({at for at, _ in one})


def test_metrics_by_hand() -> None:
    """Two jobs that came at 0 and 10 and ended at 20 and 40."""
    given = [0.0, 10.0], [20.0, 40.0], [10.0, 10.0]
    assert metric("mean_jct", *given) == 25
    assert metric("mean_slowdown", *given) == 2.5
    assert metric("makespan", *given) == 40


def test_what_cannot_be_synthesized_is_told() -> None:
    """An unknown order, a single one, an unknown metric: each says what is allowed."""
    work = Workload(jobs=[TraceJob(name="j", submit_s=0, duration_s=1)])
    for policy, told in (
        ("synthesize:fifo,mine", "'mine' is not an order to synthesize from"),
        ("synthesize:fifo", "two orders or more"),
    ):
        with pytest.raises(SpecError, match=told):
            simulate(work, machines="1x1", policy=policy)
    with pytest.raises(SpecError, match="'speed' is unknown"):
        Synthesis(by="speed")  # type: ignore[arg-type]
