"""Which users can cancel, hold and update which jobs."""

from __future__ import annotations

import pytest

from bastion.records.keys import layout
from bastion.records.requests.job_request import UpdateRequest
from tests.rigs.leader import QUOTA, Rig

ADMINS = """
[project_options.blue]
admins = ["ben"]
"""


def asked(rig: Rig, verb: str, job: str, user: str) -> tuple[str, ...]:
    """Return the problems of a request; none if it was accepted."""
    if verb == "update":
        body = UpdateRequest(targets=(job,), priority=1)
        request = rig.ask(user, "blue", verb, body)
    else:
        request = rig.verb(verb, job, user=user)
    rig.turn()
    return rig.answer(request, user=user).problems


@pytest.mark.parametrize("verb", ["cancel", "hold"])
def test_members_stop_each_other_until_there_are_admins(verb: str) -> None:
    """A team of friends needs no admins; if it has some, only they can stop others' jobs."""
    rig = Rig()
    first, second = rig.submit("first", h100=8, replicas=2), rig.submit("second", h100=8)
    assert asked(rig, verb, second, "ben") == ()
    quota = QUOTA.replace('["ann", "ben"]', '["ann", "ben", "dan"]') + ADMINS
    rig.put(layout.QUOTA, quota)
    third = rig.submit("third", h100=8)
    assert asked(rig, verb, third, "dan") == (
        f"{third}: is ann's; ann or an admin of blue (ben) may {verb} it",
    )
    assert asked(rig, verb, third, "ben") == ()
    assert rig.phase(first) == "running"


def test_only_the_owner_and_admins_update() -> None:
    """A priority affects others' waiting time, even if a project names no admins."""
    rig = Rig(quota=QUOTA.replace('["ann", "ben"]', '["ann", "ben", "dan"]') + ADMINS)
    rig.start("first", h100=8, replicas=2)
    job = rig.submit("second", h100=8)
    assert asked(rig, "update", job, "ann") == asked(rig, "update", job, "ben") == ()
    refusal = f"{job}: is ann's; ann or an admin of blue ({{}}) may update it"
    assert asked(rig, "update", job, "dan") == (refusal.format("ben"),)
    rig.put(layout.QUOTA, QUOTA)
    assert asked(rig, "update", job, "ben") == (refusal.format("none is named"),)


def test_a_removed_member_may_cancel_their_own_jobs() -> None:
    """Running jobs are charged to the project, so their owner must be able to stop them."""
    rig = Rig()
    mine, other = rig.start("mine", h100=1), rig.start("other", h100=1)
    rig.put(layout.QUOTA, QUOTA.replace('["ann", "ben"]', '["ben"]'))
    rig.turn()
    assert asked(rig, "hold", mine, "ann") == (
        "ann is not a member of blue, you are a member of none",
    )
    assert asked(rig, "cancel", mine, "ann") == ()
    assert asked(rig, "cancel", other, "cat") == ("cat is not a member of blue, yours are red",)
    rig.put(layout.QUOTA, QUOTA.replace("blue", "green"))
    rig.turn()
    assert asked(rig, "cancel", other, "ann") == ()
