"""The scripted provider does what its script says, and open_provider chooses by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.clock import VirtualClock
from bastion.errors import NoCapacityError, ProviderUnavailableError, SpecError
from bastion.machine import Machine, Pool
from bastion.provider.fake import FakeProvider
from bastion.provider.local import LocalProvider
from bastion.provider.open import open_provider
from bastion.provider.port import Listed
from quota.amounts import NOTHING

POOL = Pool(name="pool", provider="fake", resources=NOTHING, max_machines=4)
ONE, TWO = (Machine(name=f"pool-1-{n}", pool="pool", zone="z") for n in range(2))


def test_machines_boot_and_go_in_their_time() -> None:
    """States follow the clock, and each new state is reported once."""
    clock = VirtualClock()
    told: list[Listed] = []
    provider = FakeProvider(clock, boot_s=60.0, delete_s=30.0, on_state=told.append)
    provider.create([ONE], POOL)
    clock.advance(59.0)
    assert provider.list() == (Listed(name=ONE.name, pool="pool", state="creating", zone="z"),)
    clock.advance(1.0)
    assert provider.list()[0].state == "running"
    provider.delete(ONE.name)
    clock.advance(29.0)
    assert provider.list()[0].state == "deleting"
    clock.advance(1.0)
    assert provider.list()[0].state == "gone"
    assert [listed.state for listed in told] == ["running", "gone"]


def test_a_stock_runs_out() -> None:
    """Without stock a new machine is refused; an existing one is not."""
    provider = FakeProvider(VirtualClock())
    provider.stock = 1
    provider.create([ONE], POOL)
    provider.create([ONE], POOL)
    with pytest.raises(NoCapacityError):
        provider.create([TWO], POOL)
    assert provider.created == [ONE.name]


def test_a_lost_answer_is_still_a_change() -> None:
    """A change without an answer is still made."""
    provider = FakeProvider(VirtualClock())
    provider.answers_lost = 1
    with pytest.raises(ProviderUnavailableError):
        provider.create([ONE], POOL)
    assert provider.created == [ONE.name]


def test_an_unreachable_provider_does_nothing() -> None:
    """While it is unreachable, nothing is created or deleted."""
    provider = FakeProvider(VirtualClock())
    provider.is_reachable = False
    for ask in (
        provider.list,
        lambda: provider.create([ONE], POOL),
        lambda: provider.delete(ONE.name),
    ):
        with pytest.raises(ProviderUnavailableError):
            ask()
    assert provider.created == []


def test_a_machine_may_vanish() -> None:
    """A machine that disappears is no longer listed, as in some clouds."""
    provider = FakeProvider(VirtualClock())
    provider.create([ONE], POOL)
    provider.vanish(ONE.name)
    assert provider.list() == ()


def test_a_pool_names_its_provider(tmp_path: Path) -> None:
    """The provider's name in the configuration chooses; an unknown one is an error with a path."""
    local = Pool(name="here", provider="local", resources=NOTHING, max_machines=1)
    made = open_provider(local, root_url="memory:", bucket="b", machines_dir=tmp_path)
    assert isinstance(made, LocalProvider)
    made = open_provider(POOL, root_url="memory:", bucket="b", machines_dir=tmp_path)
    assert isinstance(made, FakeProvider)
    unknown = Pool(name="moon", provider="lunar", resources=NOTHING, max_machines=1)
    with pytest.raises(SpecError, match=r"pools\.moon\.provider: 'lunar' is unknown"):
        open_provider(unknown, root_url="memory:", bucket="b", machines_dir=tmp_path)
