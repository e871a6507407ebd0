"""The shipped fake, on a virtual clock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bastion.clock import VirtualClock
from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.provider.fake import FakeProvider
from tests.contracts.provider_place import STEP_S, Place, World


@contextlib.contextmanager
def fake_place(folder: Path) -> Iterator[Place]:
    """Provide the fake, on a virtual clock."""
    clock = VirtualClock()
    provider = FakeProvider(clock, boot_s=60.0, delete_s=30.0)
    provider.scarce_zone = "zone-a"
    refusals = {
        "limit": NoCapacityError("the account may have no more", is_limit=True),
        "refuse": ProviderRefusedError("rights are missing"),
    }

    def refuse(why: str, is_on: bool) -> None:
        provider.refusal = refusals[why] if is_on else None

    def cut(is_on: bool) -> None:
        provider.is_reachable = not is_on

    def pace(is_on: bool) -> None:
        too_many = ProviderUnavailableError("429: too many requests", retry_after_s=20.0)
        provider.error = too_many if is_on else None

    def stock(left: int | None) -> None:
        provider.stock = left

    def lose(is_made: bool) -> None:
        if is_made:
            provider.answers_lost = 1
        else:
            provider.requests_lost = 1

    def keep_deleted(is_on: bool) -> None:
        provider.keeps_deleted = is_on

    def lag(lag_s: float) -> None:
        provider.lag_s = lag_s

    def expire(is_on: bool) -> None:
        provider.error = ProviderRefusedError("the credentials have expired") if is_on else None

    world = World(
        made=lambda: len(provider.created),
        stock=stock,
        limit=lambda is_on: refuse("limit", is_on),
        refuse=lambda is_on: refuse("refuse", is_on),
        pace=pace,
        cut=cut,
        lose=lose,
        keep_deleted=keep_deleted,
        lag=lag,
        expire=expire,
        vanish=provider.vanish,
        moved=lambda: provider,
    )
    yield Place(
        provider=provider,
        let_time_pass=lambda: clock.advance(STEP_S),
        kill_agent=provider.stop,
        zones=("zone-a", "zone-b"),
        world=world,
    )
