"""The cost of a pool that cannot create a working machine."""

from __future__ import annotations

from bastion.machine import Pool
from bastion.pool import LEAST_BOOT_S
from bastion.service.act.shortages import Shortages
from quota.amounts import Amounts

POOL = Pool(
    name="gpu", provider="fake", resources=Amounts({"h100": 8}), max_machines=2, zones=("a",)
)


def test_machines_that_never_come_up_are_tried_ever_more_rarely() -> None:
    """A broken `setup` costs less than a tenth of its price; a change is tried immediately."""
    shortages, now, paid_s = Shortages(), 0.0, 0.0
    while now < 7 * 86400.0:
        now += LEAST_BOOT_S
        paid_s += LEAST_BOOT_S
        shortages.never_came("gpu", "a", "its setup failed: no driver", now)
        reason = shortages.reason(POOL, now)
        assert reason is not None and reason.said == "its setup failed: no driver"
        assert shortages.is_dry("gpu", "a", now)
        now = reason.until
    assert paid_s / now < 0.1
    shortages.never_came("gpu", "a", "its setup failed: no driver", now)
    shortages.forget("gpu")
    assert not shortages.is_dry("gpu", "a", now)
