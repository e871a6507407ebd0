"""Bastion is removed from a host only if no pool and no machine needs it there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.errors import SpecError
from bastion.machine import Machine, MachinePhase, Pool
from bastion.service.repair.uninstall import way_to
from quota.amounts import NOTHING

RACK = Pool(
    name="rack",
    provider="ssh",
    resources=NOTHING,
    max_machines=1,
    zones=("root@gpu1",),
    options={"ssh_config": "/etc/rack", "folder": "b"},
)
OTHER = replace(RACK, name="other", zones=("gpu2",), options={})
CLOUD = replace(RACK, name="cloud", provider="gce", zones=("z",), options={"project": "p"})
POOLS = {each.name: each for each in (RACK, CLOUD)}


def refused(host: str, *pools: Pool, machine: Machine | None = None, by: str = "") -> SpecError:
    """Return why nothing is removed there."""
    with pytest.raises(SpecError) as caught:
        way_to(host, {each.name: each for each in pools}, (machine,) if machine else (), by=by)
    return caught.value


def test_a_host_is_reached_as_its_pool_reached_it() -> None:
    """The settings are those of the named pool, of the only pool, or OpenSSH's own."""
    way = way_to("gpu9", POOLS, ())
    assert (way.zones, way.options) == (("gpu9",), RACK.options)
    both = {**POOLS, "other": OTHER}
    assert way_to("gpu9", both, (), by="rack").options == RACK.options
    assert way_to("gpu9", {}, ()).options == {}


def test_a_host_in_use_is_refused_with_what_to_do() -> None:
    """A pool would install it again; a recorded machine is in use or being deleted."""
    named = refused("GPU1", RACK)
    assert named.message == "GPU1 is a host of pool rack, and would be installed again"
    assert "take it out of hosts" in named.hint
    there = refused("gpu3", RACK, machine=Machine(name="rack-4-0", pool="rack", zone="gpu3"))
    assert there.message == "gpu3 still holds machine rack-4-0, which is creating"
    assert "bastion drain rack-4-0" in there.hint
    leaving = Machine(name="rack-4-0", pool="rack", zone="gpu3", phase=MachinePhase.DELETING)
    assert "once its host answers" in refused("gpu3", RACK, machine=leaving).hint


def test_what_cannot_be_told_is_asked_for() -> None:
    """Pools with different settings, a pool of another provider, and invalid host names."""
    assert refused("gpu9", RACK, OTHER).message == (
        "pools other, rack reach their hosts in different ways"
    )
    assert refused("gpu9", RACK, CLOUD, by="cloud").message == (
        "pool 'cloud' is not a pool of provider ssh; there are rack"
    )
    assert refused("gpu1", RACK, by="rak").message == (
        "pool 'rak' is not a pool of provider ssh; there are rack"
    )
    assert refused("-oX=y", RACK).message.startswith("'-oX=y' is not a name that OpenSSH takes")
