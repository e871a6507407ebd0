"""Maintenance: jobs that have to leave are told why."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.rigs.leader import QUOTA, Rig


def test_a_job_that_leaves_for_maintenance_says_so() -> None:
    """Its events name the window with the admin's reason; "preempted" alone does not say why."""
    rig = Rig()
    job = rig.start("first", h100=2)
    begin, end = (datetime.fromtimestamp(rig.clock.wall() + s, UTC) for s in (300, 3600))
    times = f"from = {begin:%Y-%m-%dT%H:%M:%SZ}\nuntil = {end:%Y-%m-%dT%H:%M:%SZ}\n"
    window = f'\n[[maintenance]]\n{times}reason = "new cooling"\n'
    rig.put("project-quotas/project-quotas.config", QUOTA + window)
    rig.until(lambda: rig.phase(job) == "queued", turns=400)
    told = {each.what: each.text for each in rig.root.events if each.job == job}
    times = f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
    why = f"preempted for maintenance: everything from {times}: new cooling"
    assert (told["stopping"], told["preempted"]) == (why, why)
