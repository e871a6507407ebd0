"""Notifications through the leader: when they are due, how often they are sent, when dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bastion.job import Phase, StopReason
from bastion.records.keys import layout
from bastion.records.reports.facts import Idle
from bastion.records.settings.notification import Notification, body_of, notifications_of
from bastion.service.act.notifications import BATCH, LIFE_S, label
from bastion.service.act.webhook import DeliveryError
from bastion.service.draft.root_draft import BACKLOG, MAX_OUTBOX_OF_ONE
from bastion.spec import Job, Notify, Process, Resources
from tests.rigs.job_records import T0, drained, ended, exited, stopping
from tests.rigs.leader import CONFIG, Rig

SECRET = "https://hooks.slack.com/services/T0/B0/verysecret"
WEBHOOKS = f"""{CONFIG}
[webhooks.team]
url = "{SECRET}"
kind = "slack"
[webhooks.ops]
url = "http://127.0.0.1:1/ops"
[notifications]
allow_hosts = ["Hooks.Internal"]
"""
URL = "https://example.com/hook"


@pytest.fixture
def rig() -> Rig:
    """Provide a bastion with two webhooks and two machines."""
    made = Rig(config=WEBHOOKS)
    made.turn(3)
    return made


def occasions(rig: Rig) -> list[tuple[str, Any]]:
    """Return (occasion, state) of everything that was delivered."""
    return [(body["occasion"], body["state"]) for _, body in rig.webhooks.taken]


def settled(rig: Rig) -> None:
    """Take turns until no notification waits."""
    rig.until(lambda: not rig.root.outbox)


def test_the_notification_of_an_end_has_everything_known(rig: Rig) -> None:
    """It is one JSON object, versioned, with an id, times and the outcome; it is sent once."""
    job = rig.start("train", notify=["ops"])
    rig.agent_of(job).end(job, 3)
    rig.ended(job)
    settled(rig)
    ((identity, body),) = rig.webhooks.taken
    times = {name: body.pop(name) for name in ("at", "submitted_at", "started_at")}
    assert body == {
        "schema": 1,
        "id": f"{job}.1.ended.0",
        "occasion": "ended",
        "state": "failed",
        "text": "exited with code 3",
        "code": 3,
        "job": job,
        "name": "main",
        "launch": job,
        "project": "blue",
        "user": "ann",
        "attempt": 1,
    }
    assert identity == body["id"]
    assert times["submitted_at"] < times["started_at"] < times["at"]
    assert times["at"].endswith("Z")


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (StopReason.PREEMPT, ["preempted"]),
        (StopReason.SIBLING, ["retried"]),
        (StopReason.RESIZE, []),
    ],
)
def test_an_elastic_job_that_grows_is_not_reported_as_a_retry(
    reason: StopReason, told: list[str]
) -> None:
    """No attempt failed, and it starts again at once."""
    notify = (Notify(URL, on=("preempted", "retried", "failed")),)
    before = ended(stopping(reason, notify=notify), exited(-15, notice=reason.value))
    after = drained(before)
    assert after.phase is Phase.QUEUED
    assert [each.occasion for each in notifications_of(before, after, T0)] == told


def test_every_occasion_goes_to_webhooks_that_want_it(rig: Rig) -> None:
    """Starts are sent only if requested, preemptions and retries by default."""
    everything = Notify(URL, on=("started", "preempted", "retried", "failed"))
    job = rig.start("train", notify=["ops", everything], retries=1, retry_backoff=0.0)
    rig.agent_of(job).end(job, 1)
    rig.until_attempt(job, 2)
    rig.agent_of(job).end(job, 2)
    rig.ended(job)
    settled(rig)
    by_hook: dict[str, list[str]] = {}
    for identity, body in rig.webhooks.taken:
        by_hook.setdefault(identity[-1], []).append(body["occasion"])
    assert by_hook == {"0": ["retried", "ended"], "1": ["started", "retried", "started", "ended"]}


def test_a_preemption_is_notified(rig: Rig) -> None:
    """The job is requeued: its webhook gets the preemption, and later the end."""
    jobs = [rig.start(f"lent{n}", h100=8, notify=["ops"]) for n in range(2)]
    rig.start("owner", user="cat", project="red", h100=8)
    settled(rig)
    ((identity, body),) = rig.webhooks.taken
    assert body["job"] in jobs
    assert identity == f"{body['job']}.1.preempted.0"
    assert body["text"].startswith("preempted for owner-")


def test_an_idle_job_is_notified_each_time(rig: Rig) -> None:
    """By default, it says what the job lacks; use of its devices is only an event."""
    job = rig.start("train", notify=["ops"])
    agent = rig.agent_of(job)
    lacks = "no use of any of its 8 devices above 5% for 2h"
    for text in (lacks, "", lacks):
        agent.ring(Idle(of=agent.of(job), text=text))
        rig.turn(3)
        settled(rig)
        rig.clock.advance(5)
    told = [body for _, body in rig.webhooks.taken]
    assert [(body["occasion"], body["state"], body["text"]) for body in told] == [
        ("idle", "running", lacks)
    ] * 2
    assert len({identity for identity, _ in rig.webhooks.taken}) == 2
    events = [event.text for event in rig.history() if event.what == "idle"]
    assert events == [f"it shows {lacks}", "it shows signs of life again", f"it shows {lacks}"]


def test_a_webhook_for_failures_gets_no_success(rig: Rig) -> None:
    """`failed` is an end without success, and nothing else."""
    only = Notify("ops", on=("failed",))
    good = rig.start("good", notify=[only])
    rig.agent_of(good).end(good)
    rig.ended(good)
    waiting = rig.submit("bad", notify=[only], hold=True)
    rig.verb("cancel", waiting)
    rig.ended_later(waiting)
    settled(rig)
    assert occasions(rig) == [("ended", "cancelled")]


def test_slack_gets_one_readable_message(rig: Rig) -> None:
    """It is one text, with Slack's special characters escaped."""
    job = rig.start("train", notify=["team"])
    rig.agent_of(job).end(job, 1, detail="<b> & co")
    rig.ended(job)
    settled(rig)
    ((_, body),) = rig.webhooks.taken
    first, second = body.pop("text").split("\n")
    assert body == {}
    assert first == f"*{job}* failed: exited with code 1: &lt;b&gt; &amp; co"
    assert second.startswith("project blue, ann, attempt 1, ran ")
    assert rig.webhooks.urls == [SECRET]


def test_a_failed_delivery_is_retried_with_the_same_id(rig: Rig) -> None:
    """The backoff grows, and the notification leaves root only after it was delivered."""
    rig.webhooks.error = DeliveryError("answered 500")
    job = rig.start("train", notify=["ops"])
    rig.agent_of(job).end(job)
    rig.ended(job)
    rig.turn(60)
    assert len(rig.root.outbox) == 1
    tries = len(rig.webhooks.urls)
    assert 3 <= tries <= 5, "at 0, 5, 15, 35 s and not every second"
    problem = "webhook ops: answered 500"
    assert problem in rig.leader._notifier.problems
    status = rig.bucket.read(layout.view("status"))
    assert status is not None
    assert json.loads(status.data)["problems"].count(problem) == 1
    rig.webhooks.error = None
    settled(rig)
    assert [identity for identity, _ in rig.webhooks.taken] == [f"{job}.1.ended.0"]
    assert rig.leader._notifier.problems == ()


def test_retry_after_is_respected(rig: Rig) -> None:
    """Nothing is sent before the time that the webhook asked for."""
    rig.webhooks.error = DeliveryError("answered 429", retry_after_s=50.0)
    job = rig.start("train", notify=["ops"])
    rig.agent_of(job).end(job)
    rig.until(lambda: len(rig.webhooks.urls) == 1)
    rig.turn(45)
    assert len(rig.webhooks.urls) == 1
    rig.turn(10)
    assert len(rig.webhooks.urls) == 2


def test_a_failing_webhook_delays_no_other(rig: Rig) -> None:
    """While one webhook is down, another gets everything."""
    take = rig.webhooks.send

    def send(webhook: Any, body: bytes, identity: str) -> None:
        if webhook.kind == "slack":
            raise DeliveryError("down")
        take(webhook, body, identity)

    rig.leader._notifier._send = send
    for n in range(3):
        job = rig.start(f"train{n}", notify=["team", "ops"])
        rig.agent_of(job).end(job)
        rig.ended(job)
    rig.turn(2)
    assert len(rig.webhooks.taken) == 3
    assert {each.to for each in rig.root.outbox} == {"team"}


def _refusing(rig: Rig, refused: str) -> None:
    """Let the webhooks refuse notifications whose ids begin like this, and accept all others."""
    take = rig.webhooks.send

    def send(webhook: Any, body: bytes, identity: str) -> None:
        if identity.startswith(refused):
            rig.webhooks.urls.append(webhook.url)
            raise DeliveryError("answered 500 Internal Server Error")
        take(webhook, body, identity)

    rig.leader._notifier._send = send


def test_one_that_is_refused_holds_up_no_other(rig: Rig) -> None:
    """A webhook that fails on one notification gets the others; that one is retried."""
    _refusing(rig, "bad-")
    for name in ("bad", "next", "last"):
        job = rig.start(name, notify=["ops"])
        rig.agent_of(job).end(job)
        rig.ended(job)
    rig.turn(30)
    assert [body["job"].partition("-")[0] for _, body in rig.webhooks.taken] == ["next", "last"]
    assert [each.job.partition("-")[0] for each in rig.root.outbox] == ["bad"]
    assert rig.leader._notifier.problems == ("webhook ops: answered 500 Internal Server Error",)
    tries = len(rig.webhooks.urls)
    rig.turn(60)
    assert len(rig.webhooks.urls) - tries <= 3, "less and less often"
    rig.clock.advance(LIFE_S)
    rig.turn(2)
    assert rig.root.outbox == ()
    assert sum(e.what == "notification given up" for e in rig.history()) == 1


def test_after_an_outage_all_but_the_first_come_in_order(rig: Rig) -> None:
    """During an outage each is tried in turn; the first accepted one shows that it is over."""
    rig.webhooks.error = DeliveryError("down")
    names = ["a", "b", "c", "d"]
    for name in names:
        job = rig.start(name, notify=["ops"])
        rig.agent_of(job).end(job)
        rig.ended(job)
    rig.turn(20)
    rig.webhooks.error = None
    settled(rig)
    first, *rest = [body["job"].partition("-")[0] for _, body in rig.webhooks.taken]
    assert rest == [name for name in names if name != first]
    rig.webhooks.error = DeliveryError("answered 429", retry_after_s=50.0)
    for name in names:
        job = rig.start(name, notify=["ops"])
        rig.agent_of(job).end(job)
        rig.ended(job)
    rig.webhooks.taken.clear()
    rig.webhooks.error = None
    rig.turn(60)
    assert [body["job"].partition("-")[0] for _, body in rig.webhooks.taken] == names


def test_a_webhook_that_is_well_hides_no_other_of_its_host(rig: Rig) -> None:
    """Two channels of one chat have one host: if one is gone, that remains a problem."""
    take = rig.webhooks.send

    def send(webhook: Any, body: bytes, identity: str) -> None:
        if webhook.url.endswith("gone"):
            raise DeliveryError("answered 410 Gone")
        take(webhook, body, identity)

    rig.leader._notifier._send = send
    for name, url in (("first", f"{URL}/gone"), ("second", f"{URL}/well")):
        job = rig.start(name, notify=[url])
        rig.agent_of(job).end(job)
        rig.ended(job)
    rig.until(lambda: len(rig.webhooks.taken) == 1)
    rig.turn()
    assert rig.leader._notifier.problems == ("webhook https://example.com/...: answered 410 Gone",)


def test_delivery_is_not_tried_for_ever(rig: Rig) -> None:
    """A notification that is too old is given up, and history, log and status say so."""
    rig.webhooks.error = DeliveryError("answered 404 Not Found")
    job = rig.start("train", notify=["ops"])
    rig.agent_of(job).end(job)
    rig.ended(job)
    rig.turn(2)
    rig.clock.advance(LIFE_S + 1)
    rig.turn(2)
    assert rig.root.outbox == ()
    (event,) = [e for e in rig.history() if e.what == "notification given up"]
    assert (event.job, event.project) == (job, "blue")
    assert event.text == f"{job}.1.ended.0 to ops is given up: answered 404 Not Found"
    assert any("is given up" in problem for problem in rig.journal.problems)


@pytest.mark.parametrize("fails", [False, True])
def test_none_is_given_up_untried(rig: Rig, fails: bool) -> None:
    """A bastion that returns after a notification's lifetime sends it at least once."""
    rig.webhooks.error = DeliveryError("down")
    job = rig.start("train", notify=["ops"])
    rig.agent_of(job).end(job)
    rig.ended(job)
    assert rig.root.outbox
    rig.clock.advance(LIFE_S + 1)
    rig.webhooks.error = DeliveryError("still down") if fails else None
    rig.leader = rig.take(pid=2)
    rig.turn(3)
    assert rig.root.outbox == ()
    texts = [e.text for e in rig.history() if e.what == "notification given up"]
    assert texts == ([f"{job}.1.ended.0 to ops is given up: still down"] if fails else [])
    assert bool(rig.webhooks.taken) is not fails


def test_one_failure_gives_up_no_other(rig: Rig) -> None:
    """After an outage beyond their lifetime, the others are sent even if the first fails."""
    rig.webhooks.error = DeliveryError("down")
    for name in ("a", "b", "c"):
        job = rig.start(name, notify=["ops"])
        rig.agent_of(job).end(job)
        rig.ended(job)
    rig.clock.advance(LIFE_S + 1)
    rig.leader = rig.take(pid=2)
    rig.turn()
    rig.webhooks.error = None
    rig.turn(10)
    assert [body["job"].partition("-")[0] for _, body in rig.webhooks.taken] == ["b", "c"]
    assert sum(e.what == "notification given up" for e in rig.history()) == 1


def test_all_that_wait_for_a_webhook_that_is_down_are_given_up(rig: Rig) -> None:
    """Later ones are not tried one by one for days."""
    rig.webhooks.error = DeliveryError("down")
    _cancelled(rig, 50)
    rig.turn(200)
    rig.clock.advance(LIFE_S)
    rig.turn(2)
    assert rig.root.outbox == ()
    assert sum(e.what == "notification given up" for e in rig.history()) == 50


def _cancelled(rig: Rig, number: int) -> None:
    """Let that many jobs end at the same time, each with a notification."""
    process = Process(["true"], resources=Resources(h100=1))
    jobs = tuple(Job(name=f"j{n}", processes=(process,), hold=True) for n in range(number))
    asked = rig.launch("many", jobs=jobs, together=False, notify=["ops"])
    rig.turn(2 + number // 100)
    rig.verb("cancel", rig.answer(asked).launch)
    rig.turn()


def test_a_flood_is_bounded(rig: Rig) -> None:
    """A webhook that is down for long does not fill root; dropped ones are in the history."""
    rig.webhooks.error = DeliveryError("down")
    _cancelled(rig, 600)
    assert len(rig.root.outbox) == MAX_OUTBOX_OF_ONE
    _cancelled(rig, 10)
    assert len(rig.root.outbox) == MAX_OUTBOX_OF_ONE
    assert sum(e.what == "notification dropped" for e in rig.history()) == 110


def test_a_small_backlog_is_the_most_that_a_webhook_has_from_earlier_turns(rig: Rig) -> None:
    """A webhook that accepts nothing uses no room that others may need."""
    rig.webhooks.error = DeliveryError("down")
    for _ in range(3):
        _cancelled(rig, BACKLOG - 10)
    assert len(rig.root.outbox) == 2 * (BACKLOG - 10)


def test_a_well_webhook_is_told_of_all_that_ends_at_once(rig: Rig) -> None:
    """Hundreds of jobs that end in one turn are no backlog, and are sent within seconds."""
    _cancelled(rig, 2 * BACKLOG)
    rig.turn(2 * BACKLOG // BATCH + 2)
    assert rig.root.outbox == ()
    assert len({identity for identity, _ in rig.webhooks.taken}) == 2 * BACKLOG
    assert not any(e.what == "notification dropped" for e in rig.history())


def test_what_was_taken_before_one_fails_is_not_sent_again(rig: Rig) -> None:
    """A webhook that goes down in the middle of a turn keeps what it accepted."""
    take, left = rig.webhooks.send, [5]

    def send(webhook: Any, body: bytes, identity: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise DeliveryError("down")
        take(webhook, body, identity)

    rig.leader._notifier._send = send
    _cancelled(rig, 10)
    rig.turn(3)
    assert len(rig.root.outbox) == 5
    left[0] = 100
    settled(rig)
    told = [identity for identity, _ in rig.webhooks.taken]
    assert len(told) == len(set(told)) == 10


@pytest.mark.parametrize("turns", range(5))
def test_a_new_leader_sends_what_was_due(rig: Rig, turns: int) -> None:
    """However often the bastion is replaced, everything is sent at least once, with the same id."""
    job = rig.start("train", notify=["ops"])
    rig.agent_of(job).end(job)
    rig.turn(turns)
    rig.leader = rig.take("other")
    rig.ended_later(job)
    settled(rig)
    assert {identity for identity, _ in rig.webhooks.taken} == {f"{job}.1.ended.0"}


def test_a_delivered_notification_is_not_sent_again_before_a_commit(rig: Rig) -> None:
    """Only a crash between delivery and commit sends it a second time."""
    job = rig.start("train", notify=["ops"])
    rig.agent_of(job).end(job)
    rig.until(lambda: bool(rig.webhooks.taken))
    notifier, root = rig.leader._notifier, rig.root
    assert root.outbox
    for _ in range(3):
        notifier.act(root, rig.leader._files.config.notifications)
    assert len(rig.webhooks.taken) == 1


def test_a_webhook_that_left_the_configuration_is_a_problem(rig: Rig) -> None:
    """It may return, so its notifications wait."""
    job = rig.start("train", notify=["ops"])
    rig.put(layout.CONFIG, CONFIG)
    rig.turn(2)
    rig.agent_of(job).end(job)
    rig.ended(job)
    rig.turn(2)
    assert rig.leader._notifier.problems == (
        "webhook ops: there is no [webhooks.ops] in config/bastion.toml any more",
    )
    rig.put(layout.CONFIG, WEBHOOKS)
    settled(rig)


@pytest.mark.parametrize(
    ("notify", "problem"),
    [
        ("teem", "notify: config/bastion.toml has no webhook 'teem'; did you mean team?"),
        ("xyz", "notify: config/bastion.toml has no webhook 'xyz'; there are: ops, team"),
        (
            "http://169.254.169.254/latest",
            "notify: 169.254.169.254 is an address of the bastion's machine or a private network;"
            " an admin may allow it under [notifications] allow_hosts",
        ),
    ],
)
def test_a_webhook_that_cannot_be_reached_is_refused(rig: Rig, notify: str, problem: str) -> None:
    """This includes a name that is not configured, and an address of our own network."""
    asked = rig.launch(notify=[notify])
    rig.turn()
    assert rig.answer(asked).problems == (problem,)


def test_admins_may_keep_urls_out() -> None:
    """In that case, notifications only go to configured webhooks."""
    rig = Rig(config=WEBHOOKS + "direct_urls = false\n")
    rig.turn()
    asked = rig.launch(notify=[URL])
    rig.turn()
    assert rig.answer(asked).problems == (
        "notify: URLs are not allowed here; name a webhook, there are: ops, team",
    )


def test_a_url_that_is_not_allowed_any_more_is_not_shown(rig: Rig) -> None:
    """A URL that is forbidden after submission is a problem, in words without the secret."""
    job = rig.start("train", notify=[f"{URL}?token=verysecret"])
    rig.put(layout.CONFIG, WEBHOOKS + "direct_urls = false\n")
    rig.turn(2)
    rig.agent_of(job).end(job)
    rig.ended(job)
    rig.turn(2)
    why = "URLs of users are not allowed any more: direct_urls = false"
    assert rig.leader._notifier.problems == (f"webhook https://example.com/...: {why}",)
    assert not any("verysecret" in each for each in rig.journal.problems)


def test_an_allowed_host_may_be_near(rig: Rig) -> None:
    """A host that an admin named can have any address; others cannot."""
    rules = rig.leader._files.config.notifications
    near = rules.webhook("http://hooks.internal/x", "slack")
    far = rules.webhook(URL, "")
    assert near is not None
    assert far is not None
    assert (near.may_be_near, near.kind, far.may_be_near, far.kind) == (
        True,
        "slack",
        False,
        "json",
    )


def test_no_url_is_shown_anywhere(rig: Rig) -> None:
    """No log, status, view or history contains a configured URL."""
    rig.webhooks.error = DeliveryError("answered 403 Forbidden")
    job = rig.start("train", notify=["team", f"{URL}?token=verysecret"])
    rig.agent_of(job).end(job)
    rig.ended(job)
    rig.turn(3)
    rig.clock.advance(LIFE_S + 1)
    rig.turn(3)
    shown = [*rig.keys("view/"), *rig.keys("logs/_bastion/"), *rig.keys("state/log/")]
    for key in shown:
        found = rig.bucket.read(key)
        assert found is not None
        assert b"verysecret" not in found.data, key
    assert not any("verysecret" in event.text for event in rig.history())
    assert label(f"{URL}?token=x") == "https://example.com/..."


def test_slack_words_fit_every_occasion() -> None:
    """The text of a notification is a sentence."""
    said = Notification(
        id="i",
        to="team",
        occasion="preempted",
        state="preempted",
        text="preempted for x",
        job="a-1",
        launch="a-1",
        project="p",
        user="u",
        attempt=1,
        at=100.0,
        submitted_at=0.0,
        started_at=40.0,
    )
    assert b"*a-1* was stopped for another job and waits to resume: preempted for x" in body_of(
        said, "slack"
    )
    assert b"ran 1m" in body_of(said, "slack")
