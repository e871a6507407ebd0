"""Studies: measured, compared, drawn and interrupted."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.errors import SpecError
from bastion.simulator import (
    Change,
    Cluster,
    Costs,
    Recipe,
    Shape,
    TraceJob,
    Workload,
    generated,
    simulate,
)
from bastion.simulator.report.charts import _over_time
from bastion.simulator.report.tables import machine_rows
from bastion.simulator.workload.job import Happening
from bastion.simulator.workload.load import Load, loads_of


def jobs(*rows: tuple[float, float, int]) -> Workload:
    return Workload(
        jobs=[
            TraceJob(name=f"j{i}", submit_s=submit, duration_s=length, devices=devices)
            for i, (submit, length, devices) in enumerate(rows)
        ]
    )


def test_measures_are_what_one_counts_by_hand() -> None:
    """Of two consecutive jobs on one machine, the second waits for the first."""
    study = simulate(jobs((0, 100, 4), (50, 100, 4)), machines="1x4", order="fifo")
    found = study.measures[0]
    assert (found.jct_s["mean"], found.wait_s["max"], found.response_s["mean"]) == (125, 50, 25)
    assert (found.makespan_s, found.utilisation, found.goodput) == (200, 1.0, 1.0)
    assert found.slowdown["max"] == 1.5


def test_the_work_of_a_job_that_times_out_is_not_kept() -> None:
    """It held its devices and left no result, so goodput does not count it."""
    cut = TraceJob(name="cut", submit_s=0, duration_s=1000, devices=4, max_runtime_s=100)
    done = TraceJob(name="done", submit_s=0, duration_s=100, devices=4)
    found = simulate(Workload(jobs=[cut, done]), machines="1x4", order="fifo").measures[0]
    assert (found.timed_out, found.utilisation, found.goodput) == (1, 1.0, 0.5)
    assert found.wasted_device_s == 400


def test_what_is_lost_is_counted() -> None:
    """A stopped job loses the work since its last checkpoint, and pays for its restart."""
    low = TraceJob(name="low", submit_s=0, duration_s=1000, devices=4, priority=5)
    high = TraceJob(name="high", submit_s=550, duration_s=10, devices=4, priority=1)
    costs = Costs(start_s=10, restart_s=20, leave_s=5, checkpoint_s=100)
    study = simulate(Workload(jobs=[low, high]), machines="1x4", costs=costs)
    first, second = study.results[0].jobs
    # 545 s of work by 555, of which 500 are kept; again from 575 + 10 + 20 on.
    assert (second.first_start, second.ended_at) == (555, 575)
    assert (first.preemptions, first.ended_at) == (1, 575 + 30 + 500)
    assert first.lost_s == 10 + 45 + 30


def test_a_machine_is_as_full_as_its_own_devices_are_held() -> None:
    """A job on part of a large machine does not fill it; one on all of a small one does."""
    shapes = tuple(
        Shape(count=1, devices=devices, name=name)
        for name, devices in (("a", 16), ("b", 4), ("idle", 8))
    )
    work = jobs((0, 100, 14), (0, 100, 4))
    study = simulate(work, machines=Cluster(shapes=shapes))
    rows = machine_rows(study.results[0])
    full = {(row["machine"], round(row["full"], 6)) for row in rows}
    assert full == {("a-0000", 0.875), ("b-0000", 1.0), ("idle-0000", 0.0)}


def test_machines_come_go_and_differ() -> None:
    """Work is faster on faster machines, and a job of a removed machine starts elsewhere."""
    cluster = Cluster(
        shapes=(
            Shape(count=1, devices=1, name="slow"),
            Shape(count=0, most=1, devices=1, name="fast", speed=2.0),
        ),
        changes=(Change(at_s=10, pool="fast", count=1), Change(at_s=20, pool="slow", count=-1)),
    )
    study = simulate(jobs((0, 100, 1)), machines=cluster)
    job = study.results[0].jobs[0]
    assert [list(span.taken) for span in job.spans] == [["slow-0000"], ["fast-0000"]]
    assert job.ended_at == 20 + (100 - 20) / 2


def test_a_machine_that_was_removed_is_not_made_again() -> None:
    """A pool that creates no machines has one fewer, and jobs that do not fit wait."""
    cluster = Cluster(
        shapes=(Shape(count=2, devices=1, name="pool"),),
        changes=(Change(at_s=10, pool="pool", count=-1),),
    )
    for round_s, order in ((0.0, "fifo"), (10.0, "las")):
        study = simulate(
            jobs((0, 100, 1), (0, 100, 1)), machines=cluster, round_s=round_s, order=order
        )
        result = study.results[0]
        assert result.ended_at == 190
        assert min(result.series.columns["capacity"]) == 1
        assert max(result.series.columns["used"][1:]) <= 1


def test_a_job_takes_devices_of_machines_that_stand() -> None:
    """In rounds, free devices that lie apart hold no job that needs a whole machine."""
    rows = ((0, 30, 1), (0, 90, 1), (0, 30, 1), (0, 90, 1), (30, 30, 2))
    work = replace(jobs(*rows), jobs=[job._replace(replicas=1) for job in jobs(*rows).jobs])
    study = simulate(
        work, machines="2x2", order="las", placement="first-fit", round_s=10.0, shares="one"
    )
    used = {name for each in study.results[0].jobs for span in each.spans for name in span.taken}
    assert used == {"gpu-0-0000", "gpu-0-0001"}
    assert max(study.results[0].series.columns["used"]) <= 4


def test_machines_fail_as_the_seed_says() -> None:
    """Equal seeds give equal failures, and every job still ends."""
    work = generated(Recipe(jobs=30, load=0.8, seed=2), 8)
    costs = Costs(mtbf_s=50_000, repair_s=600)
    one, two = (simulate(work, machines="2x4", costs=costs, seed=3).results[0] for _ in range(2))
    assert one.jobs == two.jobs
    assert all(each.outcome == "succeeded" for each in one.jobs)
    assert any(span.kind == "lost" for each in one.jobs for span in each.spans)


def test_a_trace_with_dates_has_the_measures_of_one_that_begins_at_zero() -> None:
    """Machines fail, come and go from its first job on, not from 1970 on."""
    changes = (Change(at_s=3600, pool="gpu-0", count=1),)
    cluster = Cluster(shapes=(Shape(count=1, devices=4),), changes=changes)
    costs = Costs(mtbf_s=20_000, repair_s=600)
    found = []
    for began in (0.0, 1_507_528_800.0):
        work = jobs((began, 9000, 4), (began + 60, 9000, 4), (began + 600, 9000, 2))
        study = simulate(work, machines=cluster, costs=costs, seed=3)
        assert study.results[0].series.times[0] == study.results[0].began_at == began
        measures = study.measures[0]
        numbers = (measures.utilisation, measures.goodput, measures.makespan_s)
        found.append([*numbers, *measures.jct_s.values()])
    assert found[0][0] > 0.4
    assert found[1] == pytest.approx(found[0])


def test_what_is_done_before_the_first_job_is_not_measured() -> None:
    """A replay begins with what admins did earlier."""
    early = Happening(at_s=0.0, what="cordon", name="gpu-0-0000")
    work = replace(jobs((90_000.0, 100, 4)), script=(early,))
    study = simulate(work, machines="2x4")
    assert study.results[0].series.times[0] == 90_000.0
    assert study.measures[0].utilisation == pytest.approx(1.0)


def test_machines_that_a_pool_creates_fail_too() -> None:
    """A new machine under an earlier name fails as often as any other."""
    lost = {}
    for least in (0, 2):
        shape = Shape(count=least, most=2, devices=4, boot_s=0.0, idle_timeout_s=600)
        work = jobs(*((at * 2000.0, 1000.0, 8) for at in range(300)))
        result = simulate(work, machines=Cluster(shapes=(shape,)), costs=Costs(mtbf_s=20_000))
        ends = Counter(s.kind for each in result.results[0].jobs for s in each.spans)
        assert ends["done"] == 300
        assert max(result.results[0].series.columns["capacity"]) == 8
        lost[least] = ends["lost"]
    assert lost[2] / 2 < lost[0] < lost[2] * 2


def test_a_pool_makes_machines_and_gives_them_back() -> None:
    """A machine is created for a job, after its boot time, and deleted when idle."""
    cluster = Cluster(shapes=(Shape(count=0, most=2, devices=4, boot_s=60, idle_timeout_s=100),))
    study = simulate(jobs((0, 50, 4), (1000, 50, 4)), machines=cluster, costs=Costs(start_s=0))
    assert [each.ended_at for each in study.results[0].jobs] == [110, 1110]
    assert max(study.results[0].series.columns["capacity"]) == 4


def test_equal_seeds_draw_equal_jobs() -> None:
    """A workload follows from its recipe alone, whatever the arrivals."""
    for arrivals in ("poisson", "bursty", "diurnal"):
        recipe = Recipe(jobs=200, arrivals=arrivals, sizes="philly", projects=3, users=2, seed=5)
        one, two = generated(recipe, 64), generated(recipe, 64)
        assert one == two
        assert [job.submit_s for job in one.jobs] == sorted(job.submit_s for job in one.jobs)
        assert len({job.project for job in one.jobs}) == 3


def test_loads_are_lists_and_ranges() -> None:
    """`1..3` has whole steps, `1..2:0.5` its own; parts of the cluster are lists too."""
    assert [load.number for load in loads_of("1..3")] == [1, 2, 3]
    assert [load.number for load in loads_of("1..2:0.5,8")] == [1, 1.5, 2, 8]
    assert loads_of("50%,70%") == [Load(0.5, True), Load(0.7, True)]
    assert [str(load) for load in loads_of("50..70%")] == ["50 %", "60 %", "70 %"]
    with pytest.raises(SpecError, match="jobs an hour and parts"):
        loads_of("4,70%")


def test_every_policy_that_is_a_list_is_compared() -> None:
    """Orders, placements and preemptions combine, each with each."""
    study = simulate(
        jobs((0, 100, 4), (50, 100, 4)),
        machines="1x4",
        order=["fifo", "srtf"],
        placement=["best-fit", "spread"],
        preemption=["none", "order"],
        cores=1,
    )
    assert [result.label for result in study.results] == [
        f"{order} {placement} {preemption}"
        for order in ("fifo", "srtf")
        for placement in ("best-fit", "spread")
        for preemption in ("none", "order")
    ]


def test_demand_is_as_uneven_as_the_skew_says() -> None:
    """With 0 all projects ask for about the same, with 2 the first for most."""
    counts = {}
    for skew in (0.0, 2.0):
        work = generated(Recipe(jobs=900, projects=3, skew=skew, seed=1), 8)
        counts[skew] = Counter(job.project for job in work.jobs)
    assert min(counts[0.0].values()) > 250
    assert counts[2.0]["project-1"] > 600


def test_drawn_jobs_ask_for_every_type_as_often_as_it_has_devices() -> None:
    """A cluster of several types has work on all, and no job asks for more than its type has."""
    recipe = Recipe(jobs=2000, load=0.7, sizes="philly", seed=3)
    work = generated(recipe, 40, {"old": 30, "new": 10})
    counts = Counter(job.type for job in work.jobs)
    assert counts["old"] / len(work.jobs) == pytest.approx(0.75, abs=0.03)
    most = {kind: max(j.devices for j in work.jobs if j.type == kind) for kind in counts}
    assert most == {"old": 16, "new": 8}
    again = generated(recipe, 40, {"old": 30, "new": 10})
    assert again.jobs == work.jobs


@pytest.mark.parametrize(("days", "title", "label"), [(0.8, "hours", "* 24"), (9.0, "days", "")])
def test_time_across_a_chart_is_in_hours_where_it_is_short(
    days: float, title: str, label: str
) -> None:
    """No chart of an afternoon has tenths of a day."""
    alt = pytest.importorskip("altair")
    across = _over_time(alt, days)
    axis = across["axis"].to_dict()
    assert across["title"] == title
    assert label in axis.get("labelExpr", "")
    assert len(axis.get("values", [])) <= 11


@pytest.mark.prove
@pytest.mark.parametrize("width", [420, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window(tmp_path: Path, width: int, scheme: str) -> None:
    """On a phone and on a wide screen nothing is cut off, and every chart is drawn."""
    pytest.importorskip("altair")
    browser = pytest.importorskip("tests.servers.browser")
    if browser.CHROMIUM is None:
        pytest.skip("no chromium here to draw the page")
    work = generated(Recipe(jobs=60, load=1.0, projects=3, users=2, sizes="philly", seed=3), 16)
    study = simulate(work, machines="4x4", order=["fair", "fifo", "srtf", "las"], cores=1)
    study.report(tmp_path / "study.html")
    address = (tmp_path / "study.html").as_uri()
    with (
        browser.chromium() as opened,
        browser.page_of(opened, "", scheme=scheme, width=width) as (page, wrong),
    ):
        page.goto(address)
        page.wait_for_selector(f"body[data-drawn='{len(study.charts)}']")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        wide = "[...document.querySelectorAll('svg')].map((e) => e.getBoundingClientRect().right)"
        assert max(page.evaluate(wide)) <= width
        assert not browser.faults_of(page)
    assert wrong == []


@pytest.mark.prove
def test_the_page_is_whole_and_a_browser_draws_it(tmp_path: Path) -> None:
    """It loads nothing, and Chromium draws all of its charts without an error."""
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium here to draw the page")
    work = generated(Recipe(jobs=60, load=1.0, projects=3, sizes="philly", seed=3), 16)
    study = simulate(work, machines="4x4", order=["fair", "fifo"], cores=1)
    page = tmp_path / "study.html"
    study.report(page)
    text = page.read_text()
    assert 'src="http' not in text and 'href="http' not in text
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000"]
    flags.append(f"--user-data-dir={tmp_path / 'profile'}")
    ran = subprocess.run(
        [browser, *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=60
    )
    assert f'data-drawn="{len(study.charts)}"' in ran.stdout, ran.stdout[:500]
    assert "data-failed" not in ran.stdout.partition("<script>")[0]


def test_a_chart_is_exported(tmp_path: Path) -> None:
    """It becomes a file of the format that is asked for."""
    pytest.importorskip("vl_convert")
    from bastion.simulator.report.export import export

    study = simulate(jobs((0, 100, 4), (50, 100, 4)), machines="1x4")
    chart = {"queue": study.charts["queue"]}
    for form, head in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        (file,) = export(chart, tmp_path, form, headings={})
        assert file.name == f"queue.{form}"
        assert file.read_bytes().startswith(head)


def test_days_and_loads_are_written_in_full(tmp_path: Path) -> None:
    """An axis of many days says 10, 20, 100; not 1e+1."""
    pytest.importorskip("vl_convert")
    from bastion.simulator.report.export import export

    study = simulate(jobs((0, 109 * 86_400, 4)), machines="1x4")
    (file,) = export({"queue": study.charts["queue"]}, tmp_path, "svg", headings={})
    text = file.read_text()
    assert ">100</text>" in text
    assert "e+" not in text


def test_an_exported_chart_says_what_it_shows(tmp_path: Path) -> None:
    """It has the heading of its place on the page, with the policy, and a number on each axis."""
    pytest.importorskip("vl_convert")
    work = jobs((0, 1000, 4), (700, 1000, 4))
    study = simulate(work, machines="1x4", order=["fair", "fifo"], cores=1)
    text = {file.stem: file.read_text() for file in study.export(tmp_path, "svg")}
    assert ">The pool under fifo</text>" in text["machines-1"]
    assert ">Devices in use</text>" in text["utilisation"]
    for mark in (">1</text>", ">2</text>"):
        assert mark in text["cdf-slowdown"], "the slowdowns are 1 and 1.3"


def test_data_frames_have_the_rows_of_the_json() -> None:
    """A row a job and policy, with why it waits; a notebook shows a study by its policies."""
    pytest.importorskip("pandas")
    work = generated(Recipe(jobs=6, load=0.5, seed=3), 4)
    study = simulate(work, machines="1x4", order=["fair", "fifo"], cores=1)
    rows = study.jobs_json()["simulations"][0]["jobs"]
    assert list(study.jobs.columns) == ["policy", *rows[0]]
    assert "reason" in rows[0] and "stops" not in rows[0]
    assert len(study.jobs) == 12
    assert list(study.summary.index) == ["fair", "fifo"]
    assert repr(study) == "Study(fair, fifo)"


def test_results_are_json() -> None:
    """Everything that is measured can be written as JSON."""
    study = simulate(jobs((0, 100, 4)), machines="1x4")
    assert json.loads(json.dumps(study.as_json()))["simulations"][0]["ended"] == 1


def test_the_best_of_a_row_is_that_of_its_load_and_is_seen_to_be() -> None:
    """Loads are not compared with each other, and equal-looking numbers have equal marks."""
    pytest.importorskip("altair")
    from bastion.simulator.report.numbers import numbers_table

    study = simulate(
        jobs((0, 100, 4), (50, 100, 4)), machines="1x4", order=["fifo", "las"], cores=1
    )
    first, second = study.measures
    low = [replace(first, label="a", goodput=0.5), replace(second, label="b", goodput=0.4)]
    high = [
        replace(first, label="c", goodput=0.90001),
        replace(second, label="d", goodput=0.9),
    ]
    text = numbers_table([*low, *high], [Load(1), Load(1), Load(2), Load(2)])
    (row,) = (line for line in text.split("<tr>") if "<td>goodput</td>" in line)
    assert row.startswith(
        '<td>goodput</td><td data-of="a" class=best>50.0 %</td><td data-of="b">40.0 %</td>'
        '<td data-of="c">90.0 %</td><td data-of="d">90.0 %</td>'
    )


def test_devices_in_use_are_neither_good_nor_bad() -> None:
    """A policy that loses most work holds most devices: no cell of that row is the best."""
    pytest.importorskip("altair")
    from bastion.simulator.report.numbers import numbers_table

    study = simulate(jobs((0, 100, 4)), machines="1x4", order=["fifo", "las"], cores=1)
    first, second = study.measures
    text = numbers_table([replace(first, utilisation=0.9), replace(second, utilisation=0.1)])
    (row,) = (line for line in text.split("<tr>") if "<td>in use</td>" in line)
    assert "best" not in row


def test_what_is_drawn_is_what_was_measured() -> None:
    """Waiting begins at zero, and what is kept over time is the goodput."""
    from bastion.simulator.report import tables

    low = TraceJob(name="low", submit_s=0, duration_s=1000, devices=4, priority=5)
    high = TraceJob(name="high", submit_s=550, duration_s=10, devices=4, priority=1)
    costs = Costs(start_s=10, restart_s=20, leave_s=5, checkpoint_s=100)
    study = simulate(Workload(jobs=[low, high]), machines="1x4", costs=costs)
    rows = tables.cdf_rows(study.results)
    waiting = [row["value"] for row in rows if row["what"] == "waiting"]
    assert (waiting[0], waiting[-1]) == (5, study.measures[0].wait_s["max"])
    kept = tables.kept_over_time(study.results[0])
    assert sum(kept) / len(kept) / 4 == pytest.approx(study.measures[0].goodput)


def test_fast_devices_are_in_use_for_no_less_than_their_goodput() -> None:
    """Goodput is the time whose work was kept, on devices of every speed."""
    work = Workload(jobs=[TraceJob(name="a", submit_s=0, duration_s=1000, devices=2)])
    study = simulate(work, machines="1x4@2")
    assert study.measures[0].utilisation == pytest.approx(0.5)
    assert study.measures[0].goodput == pytest.approx(0.5)


def test_settings_say_what_was_simulated() -> None:
    """Policies as they were in force, every cost, what fails and from which seed."""
    costs = Costs(start_s=10, mtbf_s=1e6, repair_s=60, stockout=0.1, stockout_s=5)
    study = simulate(
        jobs((0, 100, 4)), machines="1x4", order=["fifo", "las"], costs=costs, seed=7, cores=1
    )
    assert [result.settings["preemption"] for result in study.results] == ["reclaim", "order"]
    assert study.results[1].settings["order"] == "las"
    assert study.results[0].settings["costs"] == (
        "start 10 s, restart 60 s, leave 10 s, checkpoint every 1800 s, a machine fails every"
        " 1e+06 s, repair 60 s, stock-outs 10 % for 5 s, seed 7"
    )


def test_a_pool_of_a_sweep_is_named_by_its_own_point() -> None:
    """The charts are those of the largest load, and so are their titles."""
    pytest.importorskip("altair")
    from bastion.simulator.report.page import page
    from bastion.simulator.setup import Setup
    from bastion.simulator.study.compare import run_points
    from bastion.simulator.study.point import Point, labelled
    from bastion.simulator.study.study import Study

    cluster = Cluster(shapes=(Shape(count=2, devices=4),))
    points = [
        Point(
            setup=Setup(cluster=cluster, order="fifo"),
            workload=generated(Recipe(jobs=10, per_hour=load), 8),
            load=Load(load),
        )
        for load in (1.0, 2.0)
    ]
    study = Study(run_points(labelled(points), cores=1))
    assert [name for name in study.charts if name.startswith("pool-")] == ["pool-1"]
    text = page(study.results, study.measures, study.charts, [point.load for point in points])
    assert "at loads of 1/h, 2/h, seed 1 on" in text
    assert "The pool under fifo at 2/h" in text
    assert "The pool under fifo at 1/h" not in text
