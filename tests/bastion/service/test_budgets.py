"""A budget from commit to commit: usage counts, nothing starts beyond it, and it renews."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rigs.leader import QUOTA, Rig

DAY_S = 86_400.0
HOUR_S = 3_600.0
DAILY = f'{QUOTA}\n[project_options.blue]\nbudget = {{ h100 = 4 }}\nbudget_period = "day"\n'


def view(rig: Rig, name: str) -> Any:
    """Return what the bastion published last."""
    return json.loads(rig.bucket.read(f"view/{name}.json").data)  # type: ignore[union-attr]


def at_midnight(quota: str = DAILY) -> tuple[Rig, float]:
    """Return a bastion that runs since the beginning of a day, and the time of that."""
    rig = Rig(quota=quota)
    midnight = (rig.clock.wall() // DAY_S + 1) * DAY_S
    rig.clock.advance(midnight - rig.clock.wall())
    rig.turn()
    return rig, midnight


def spent(rig: Rig) -> float:
    """Return the device hours that count against the budget."""
    return rig.root.spent["blue"].hours["h100"]


def test_a_budget_is_counted_told_and_renewed() -> None:
    """Two devices use up four in two hours: the job continues, the next starts tomorrow."""
    rig, midnight = at_midnight()
    first = rig.start("first", h100=2)
    rig.turn(seconds=2 * HOUR_S)
    rig.turn(3)
    second = rig.submit("second", h100=1)
    other = rig.start("other", user="cat", project="red", h100=8)
    rig.turn(5)
    assert spent(rig) == pytest.approx(4.0, abs=0.02)
    assert [rig.phase(job) for job in (first, second, other)] == ["running", "queued", "running"]
    (row,) = [each for each in view(rig, "queue")["jobs"] if each["id"] == second]
    assert row["reason"]["kind"] == "BudgetSpent"
    assert row["reason"]["until"] == midnight + DAY_S
    told = view(rig, "status")["budgets"]["blue"]
    assert (told["period"], told["hours"]) == ("day", {"h100": 4})
    assert told["renewed_at"] == midnight + DAY_S
    assert told["used"]["h100"] == pytest.approx(4.0, abs=0.02)
    rig.clock.advance(midnight + DAY_S - rig.clock.wall())
    rig.until(lambda: rig.phase(second) == "running")
    assert rig.root.spent["blue"].since == midnight + DAY_S
    assert spent(rig) < 0.1


def test_what_was_used_survives_the_bastion() -> None:
    """A new leader continues the count, including the time without a leader."""
    rig, _ = at_midnight()
    rig.start("first", h100=1)
    rig.turn(seconds=HOUR_S)
    rig.turn(2)
    before = spent(rig)
    assert before == pytest.approx(1.0, abs=0.02)
    rig.clock.advance(HOUR_S)
    rig.leader = rig.take(pid=2)
    rig.turn(3)
    assert spent(rig) == pytest.approx(before + 1.0, abs=0.02)


def test_a_budget_that_is_raised_lets_the_next_job_start() -> None:
    """Earlier usage counts against the new budget; a refused quota file changes nothing."""
    rig, _ = at_midnight()
    rig.start("first", h100=2)
    rig.turn(seconds=2 * HOUR_S)
    rig.turn(3)
    waits = rig.submit("second", h100=1)
    rig.put("project-quotas/project-quotas.config", DAILY.replace("h100 = 4 }", "h100 = 0 }"))
    rig.turn(3)
    assert rig.phase(waits) == "queued"
    assert spent(rig) > 3.9
    rig.put("project-quotas/project-quotas.config", DAILY.replace("h100 = 4 }", "h100 = 5 }"))
    rig.until(lambda: rig.phase(waits) == "running")
    assert spent(rig) > 3.9
