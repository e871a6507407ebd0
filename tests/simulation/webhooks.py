"""Webhooks of the simulated world: they accept what they are sent, unless fate prevents it."""

from __future__ import annotations

from collections import Counter

from bastion.records.settings.webhooks import Webhook
from bastion.service.act.webhook import DeliveryError
from tests.simulation.baton import Baton
from tests.simulation.fates import Fates
from tests.simulation.port import Port


class SimWebhooks:
    """All outside receivers of notifications."""

    def __init__(self, baton: Baton, fates: Fates) -> None:
        self._port = Port(baton, fates, DeliveryError)
        self.taken: Counter[str] = Counter()
        """How often each notification was accepted, by its id."""

    def send(self, webhook: Webhook, body: bytes, identity: str) -> None:
        """Accept it, as one step of the running actor."""

        def work() -> None:
            self.taken[identity] += 1

        self._port.call("post", identity, work, writes=True)
