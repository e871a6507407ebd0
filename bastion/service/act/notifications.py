"""
Delivery of notifications: those in root are sent to their webhooks, and retried.

Each webhook gets its notifications one after the other, in order, and a few in each turn. A webhook
that fails or hangs delays only its own. After a failure, the next try is with another notification.
If that one is accepted, the webhook is well, and the refused notification waits separately, so that
it never holds up the rest. A notification leaves root in a commit after its delivery, so delivery
is at least once. The backoff is kept only in memory: a new leader tries immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias
from urllib.parse import urlsplit

from bastion.clock import Clock
from bastion.errors import BastionError
from bastion.lane import Lane
from bastion.records.root import Root
from bastion.records.settings.notification import Notification, body_of
from bastion.records.settings.webhooks import Notifications, Webhook
from bastion.service.act.webhook import DeliveryError
from bastion.service.draft.root_draft import Draft
from bastion.service.journal import Journal
from bastion.value import value

Send: TypeAlias = Callable[[Webhook, bytes, str], None]
"""Sends a body with the id of its notification; raises if the webhook does not accept it."""

FIRST_BACKOFF_S = 5.0
MAX_BACKOFF_S = 600.0
LIFE_S = 6 * 3600.0
"""How long delivery is tried: after more than half a working day the news has spread otherwise."""


DOWN_S = 60.0
"""The backoff of a webhook that is down, and did not just fail once or twice."""
BATCH = 20
"""Notifications that one webhook gets in one turn: hundreds of jobs may end at the same time."""
BATCH_S = 10.0
"""Time after which a slow webhook gets no more in that turn."""


@value
class _Sent:
    """The result of sending notifications to one webhook in one turn."""

    taken: tuple[str, ...]
    failed: str = ""
    """The notification at which it stopped, or empty."""
    error: Exception | None = None


class Notifier:
    """
    Delivers notifications to their webhooks.

    Args:
        lane: Only for deliveries.
        send: Sends one notification to one webhook.
    """

    def __init__(self, clock: Clock, journal: Journal, lane: Lane, send: Send) -> None:
        self._clock = clock
        self._journal = journal
        self._lane = lane
        self._send = send
        self._in_flight: dict[str, str] = {}
        """Webhook -> the first of the notifications that are being sent to it."""
        self._delivered: set[str] = set()
        """Delivered notifications that root may still hold."""
        self._backoffs: dict[str, tuple[float, float]] = {}
        """Webhook -> (end, length) of its backoff in seconds, on our own clock."""
        self._failed: dict[str, dict[str, None]] = {}
        """Webhook -> the notifications that it has not accepted since it last accepted one."""
        self._refused: dict[str, tuple[float, float]] = {}
        """Notification that its webhook refuses while it accepts others -> (end, length)."""
        self._failing: dict[str, str] = {}
        """Webhook -> why it accepts nothing, or not everything."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Webhooks that accept no notification now, and why."""
        told = {f"webhook {label(to)}: {text}" for to, text in self._failing.items()}
        return tuple(sorted(told))

    def collect(self, draft: Draft) -> None:
        """
        Remove from `draft` what was delivered, and what could not be delivered for too long.

        None is given up untried: its webhook may have been well while no bastion led.
        """
        for done in self._lane.collect():
            to = next((to for to, sent in self._in_flight.items() if sent == done.key), "")
            self._in_flight.pop(to, None)
            sent = done.result
            if not isinstance(sent, _Sent):
                sent = _Sent(taken=(), failed=done.key, error=done.error)
            for notification in sent.taken:
                self._take(to, notification)
            if sent.error is not None:
                self._back_off(to, sent.failed, sent.error)
        for each in draft.outbox:
            if each.id in self._delivered:
                draft.delivered(each.id)
            elif draft.now - each.at > LIFE_S and self._is_in_vain(each):
                draft.delivered(each.id)
                why = self._failing.get(each.to, "it was never reached")
                text = f"{each.id} to {label(each.to)} is given up: {why}"
                draft.tell_of(each.job, each.project, what="notification given up", text=text)
                self._journal.problem(f"notification {each.id}", BastionError(text))

    def act(self, root: Root, rules: Notifications) -> None:
        """Send notifications of the committed `root` to webhooks with no delivery in flight."""
        waiting = {each.id for each in root.outbox}
        self._delivered &= waiting
        self._refused = {name: until for name, until in self._refused.items() if name in waiting}
        pending = {each.to for each in root.outbox}
        self._failing = {to: text for to, text in self._failing.items() if to in pending}
        due: dict[str, list[Notification]] = {}
        for each in root.outbox:
            if each.id not in self._delivered and not self._is_put_off(each):
                due.setdefault(each.to, []).append(each)
        for to, ready in due.items():
            failed = self._failed.get(to, {})
            untried = [one for one in ready if one.id not in failed]
            if not untried:  # none of them is accepted: retry them in order
                self._failed.pop(to, None)
            is_well = untried and not failed and to not in self._backoffs
            batch = (untried or ready)[: BATCH if is_well else 1]
            self._in_flight[to] = batch[0].id
            self._lane.submit(batch[0].id, partial(self._send_all, batch, rules))

    def _is_in_vain(self, each: Notification) -> bool:
        """Whether its webhook has refused it, or has accepted nothing for a while."""
        is_tried = each.id in self._refused or each.id in self._failed.get(each.to, ())
        return is_tried or self._backoffs.get(each.to, (0.0, 0.0))[1] >= DOWN_S

    def _is_put_off(self, each: Notification) -> bool:
        """Whether it must wait, because its webhook must wait or refuses only this one."""
        never = (0.0, 0.0)
        until = max(self._backoffs.get(each.to, never)[0], self._refused.get(each.id, never)[0])
        return each.to in self._in_flight or until > self._clock.monotonic()

    def close(self) -> None:
        """Start no more deliveries."""
        self._lane.close()

    def _send_all(self, batch: Sequence[Notification], rules: Notifications) -> _Sent:
        """Send `batch` in order, up to the first that is not accepted."""
        until = self._clock.monotonic() + BATCH_S
        taken: list[str] = []
        for each in batch:
            try:
                self._deliver(each, rules)
            except Exception as error:  # noqa: BLE001 - what was taken before it is kept
                return _Sent(taken=tuple(taken), failed=each.id, error=error)
            taken.append(each.id)
            if self._clock.monotonic() > until:
                break
        return _Sent(taken=tuple(taken))

    def _deliver(self, each: Notification, rules: Notifications) -> None:
        webhook = rules.webhook(each.to, each.kind)
        if webhook is None:
            raise _undeliverable(each.to)
        self._send(webhook, body_of(each, webhook.kind), each.id)

    def _take(self, to: str, notification: str) -> None:
        """Record that a webhook is well: what it did not accept before is refused individually."""
        self._delivered.add(notification)
        self._refused.pop(notification, None)
        backoff = self._backoffs.pop(to, (0.0, FIRST_BACKOFF_S))
        failed = self._failed.pop(to, {})
        self._refused |= dict.fromkeys(failed.keys() - self._delivered, backoff)
        if not failed:
            self._failing.pop(to, None)

    def _back_off(self, to: str, notification: str, error: Exception) -> None:
        if not isinstance(error, BastionError):
            self._journal.failure(f"webhook {label(to)}", error)
        else:
            self._journal.problem(f"webhook {label(to)}", error)
        self._failing[to] = str(error)
        asked_s = getattr(error, "retry_after_s", 0.0)
        before_s = self._refused.get(notification, self._backoffs.get(to, (0.0, 0.0)))[1]
        backoff_s = max(min(MAX_BACKOFF_S, max(FIRST_BACKOFF_S, 2 * before_s)), asked_s)
        backoff = self._clock.monotonic() + backoff_s, backoff_s
        if notification in self._refused and not asked_s:
            self._refused[notification] = backoff
            return
        self._backoffs[to] = backoff
        if not asked_s:  # it asks for patience, which does not depend on the message
            self._failed.setdefault(to, {})[notification] = None


def _undeliverable(to: str) -> DeliveryError:
    """Return the error for a name or a URL that the configuration no longer allows."""
    if label(to) == to:
        return DeliveryError(f"there is no [webhooks.{to}] in config/bastion.toml any more")
    return DeliveryError("URLs of users are not allowed any more: direct_urls = false")


def label(to: str) -> str:
    """Return the name of a webhook for logs and views, without secrets (at most a URL's host)."""
    if "/" not in to and ":" not in to:
        return to
    parts = urlsplit(to)
    return f"{parts.scheme}://{parts.hostname or ''}/..."
