"""
Notifications on their way: what of root is due, sent on a lane of its own, and sent again.

Each webhook is told one thing at a time, in order; one that fails or hangs makes only itself wait.
A notification leaves root in a later commit than the one that saw it taken, so it is sent at least
once. How long to wait before the next try is memory: a new leader tries at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias
from urllib.parse import urlsplit

from bastion.clock import Clock
from bastion.errors import BastionError
from bastion.lane import Lane
from bastion.records.notification import Notification, body_of
from bastion.records.root import Root
from bastion.records.webhooks import Notifications, Webhook
from bastion.service.act.webhook import DeliveryError
from bastion.service.draft.root_draft import Draft
from bastion.service.journal import Journal

Send: TypeAlias = Callable[[Webhook, bytes, str], None]
"""Sends a body, named by its notification's id; raises where it was not taken."""

FIRST_REST_S = 5.0
LONGEST_REST_S = 600.0
LIFE_S = 6 * 3600.0
"""Longer outages than a working day's half are told by other means."""


class Notifier:
    """
    Brings notifications to their webhooks.

    Args:
        lane: Nobody else's work may be on it.
        send: How.
    """

    def __init__(self, clock: Clock, journal: Journal, lane: Lane, send: Send) -> None:
        self._clock = clock
        self._journal = journal
        self._lane = lane
        self._send = send
        self._under_way: dict[str, str] = {}
        """Webhook -> the notification that it is being told."""
        self._taken: set[str] = set()
        """Delivered, as far as we know; root may not know it yet."""
        self._rests: dict[str, tuple[float, float]] = {}
        """Webhook -> (until when it is left alone, how long that was), by our own clock."""
        self._failing: dict[str, str] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Webhooks that do not take what they are sent now, and why."""
        return tuple(f"webhook {to}: {text}" for to, text in sorted(self._failing.items()))

    def collect(self, draft: Draft) -> None:
        """Let `draft` know what was taken, and give up what nobody took for too long."""
        for done in self._lane.collect():
            to = next((to for to, told in self._under_way.items() if told == done.key), "")
            self._under_way.pop(to, None)
            if done.error is None:
                self._taken.add(done.key)
                self._rests.pop(to, None)
                self._failing.pop(label(to), None)
            else:
                self._rest(to, done.error)
        for told in draft.outbox:
            if told.id in self._taken:
                draft.delivered(told.id)
            elif draft.now - told.at > LIFE_S:
                draft.delivered(told.id)
                why = self._failing.get(label(told.to), "it was never reached")
                text = f"{told.id} to {label(told.to)} is given up: {why}"
                draft.tell_of(told.job, told.project, what="notification given up", text=text)
                self._journal.problem(f"notification {told.id}", BastionError(text))

    def act(self, root: Root, rules: Notifications) -> None:
        """Send what the committed `root` wants told, to webhooks that are free."""
        standing = {told.id for told in root.outbox}
        self._taken &= standing
        waited_for = {label(told.to) for told in root.outbox}
        self._failing = {to: text for to, text in self._failing.items() if to in waited_for}
        now = self._clock.monotonic()
        for told in root.outbox:
            is_resting = self._rests.get(told.to, (0.0, 0.0))[0] > now
            if told.to in self._under_way or is_resting or told.id in self._taken:
                continue
            self._under_way[told.to] = told.id
            self._lane.submit(told.id, partial(self._deliver, told, rules))

    def close(self) -> None:
        """Send nothing more."""
        self._lane.close()

    def _deliver(self, told: Notification, rules: Notifications) -> None:
        webhook = rules.webhook(told.to, told.kind)
        if webhook is None:
            raise DeliveryError(f"there is no [webhooks.{told.to}] in config/bastion.toml any more")
        self._send(webhook, body_of(told, webhook.kind), told.id)

    def _rest(self, to: str, error: Exception) -> None:
        if not isinstance(error, BastionError):
            self._journal.failure(f"webhook {label(to)}", error)
        else:
            self._journal.problem(f"webhook {label(to)}", error)
        self._failing[label(to)] = str(error)
        before_s = self._rests.get(to, (0.0, 0.0))[1]
        rest_s = min(LONGEST_REST_S, max(FIRST_REST_S, 2 * before_s))
        rest_s = max(rest_s, getattr(error, "retry_after_s", 0.0))
        self._rests[to] = (self._clock.monotonic() + rest_s, rest_s)


def label(to: str) -> str:
    """A webhook as logs and views may show it: its name, or the host of its URL."""
    if "/" not in to and ":" not in to:
        return to
    parts = urlsplit(to)
    return f"{parts.scheme}://{parts.hostname or ''}/..."
