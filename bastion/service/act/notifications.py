"""
Delivery of notifications: those in root are sent to their webhooks, and retried.

Each webhook gets one notification at a time, in order. A webhook that fails or hangs delays only
its own. A notification leaves root in a commit after its delivery, so delivery is at least once.
The backoff is kept in memory only: a new leader tries at once.
"""

from __future__ import annotations

from collections.abc import Callable
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

Send: TypeAlias = Callable[[Webhook, bytes, str], None]
"""Sends a body under the id of its notification; raises if the webhook does not accept it."""

FIRST_BACKOFF_S = 5.0
MAX_BACKOFF_S = 600.0
LIFE_S = 6 * 3600.0
"""How long delivery is tried: after more than half a working day the news has spread otherwise."""


class Notifier:
    """
    Delivers notifications to their webhooks.

    Args:
        lane: For deliveries only.
        send: Sends one notification to one webhook.
    """

    def __init__(self, clock: Clock, journal: Journal, lane: Lane, send: Send) -> None:
        self._clock = clock
        self._journal = journal
        self._lane = lane
        self._send = send
        self._in_flight: dict[str, str] = {}
        """Webhook -> the notification that is being sent to it."""
        self._delivered: set[str] = set()
        """Delivered notifications that root may still hold."""
        self._backoffs: dict[str, tuple[float, float]] = {}
        """Webhook -> (end, length) of its backoff in seconds, on our own clock."""
        self._failing: dict[str, str] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Webhooks that accept no notification now, and why."""
        return tuple(f"webhook {to}: {text}" for to, text in sorted(self._failing.items()))

    def collect(self, draft: Draft) -> None:
        """
        Remove from `draft` what was delivered, and what could not be delivered for too long.

        None is given up untried: while no bastion led, its webhook may have been well.
        """
        for done in self._lane.collect():
            to = next((to for to, sent in self._in_flight.items() if sent == done.key), "")
            self._in_flight.pop(to, None)
            if done.error is None:
                self._delivered.add(done.key)
                self._backoffs.pop(to, None)
                self._failing.pop(label(to), None)
            else:
                self._back_off(to, done.error)
        for each in draft.outbox:
            if each.id in self._delivered:
                draft.delivered(each.id)
            elif draft.now - each.at > LIFE_S and each.to in self._backoffs:
                draft.delivered(each.id)
                why = self._failing.get(label(each.to), "it was never reached")
                text = f"{each.id} to {label(each.to)} is given up: {why}"
                draft.tell_of(each.job, each.project, what="notification given up", text=text)
                self._journal.problem(f"notification {each.id}", BastionError(text))

    def act(self, root: Root, rules: Notifications) -> None:
        """Send notifications of the committed `root` to webhooks with no delivery in flight."""
        self._delivered &= {each.id for each in root.outbox}
        pending = {label(each.to) for each in root.outbox}
        self._failing = {to: text for to, text in self._failing.items() if to in pending}
        now = self._clock.monotonic()
        for each in root.outbox:
            is_backing_off = self._backoffs.get(each.to, (0.0, 0.0))[0] > now
            if each.to in self._in_flight or is_backing_off or each.id in self._delivered:
                continue
            self._in_flight[each.to] = each.id
            self._lane.submit(each.id, partial(self._deliver, each, rules))

    def close(self) -> None:
        """Begin no more deliveries."""
        self._lane.close()

    def _deliver(self, each: Notification, rules: Notifications) -> None:
        webhook = rules.webhook(each.to, each.kind)
        if webhook is None:
            raise _undeliverable(each.to)
        self._send(webhook, body_of(each, webhook.kind), each.id)

    def _back_off(self, to: str, error: Exception) -> None:
        if not isinstance(error, BastionError):
            self._journal.failure(f"webhook {label(to)}", error)
        else:
            self._journal.problem(f"webhook {label(to)}", error)
        self._failing[label(to)] = str(error)
        before_s = self._backoffs.get(to, (0.0, 0.0))[1]
        backoff_s = min(MAX_BACKOFF_S, max(FIRST_BACKOFF_S, 2 * before_s))
        backoff_s = max(backoff_s, getattr(error, "retry_after_s", 0.0))
        self._backoffs[to] = (self._clock.monotonic() + backoff_s, backoff_s)


def _undeliverable(to: str) -> DeliveryError:
    """Return the error for a name or a URL that the configuration does not allow any more."""
    if label(to) == to:
        return DeliveryError(f"there is no [webhooks.{to}] in config/bastion.toml any more")
    return DeliveryError("URLs of users are not allowed any more: direct_urls = false")


def label(to: str) -> str:
    """The name of a webhook for logs and views, without secrets: its name or its URL's host."""
    if "/" not in to and ":" not in to:
        return to
    parts = urlsplit(to)
    return f"{parts.scheme}://{parts.hostname or ''}/..."
