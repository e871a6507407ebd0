"""
`Parts`: the replaceable parts of a cycle; the quota file selects the policies among them.

They are values, so that a study or a test can replace a part without changing the rest.
"""

from __future__ import annotations

from bastion.scheduler.placement.candidates import PlacementPolicy
from bastion.scheduler.policies import ADMISSIONS, ORDERS, PLACEMENTS, PREEMPTIONS
from bastion.scheduler.policies.admission import Admission, admit_all
from bastion.scheduler.policies.order import OrderPolicy
from bastion.scheduler.policies.preemption import PreemptionPolicy
from bastion.scheduler.state.holders.classes import Classify, classify
from bastion.value import value
from quota.options import SchedulerOptions


@value
class Parts:
    """The policies of one cycle, and how it derives classes."""

    order: OrderPolicy
    placement: PlacementPolicy
    preemption: PreemptionPolicy
    admission: Admission = admit_all
    classify: Classify = classify


def chosen(options: SchedulerOptions) -> Parts:
    """The parts that the quota file names."""
    return Parts(
        order=ORDERS[options.order],
        placement=PLACEMENTS[options.placement],
        preemption=PREEMPTIONS[options.preemption],
        admission=ADMISSIONS[options.admission],
    )
