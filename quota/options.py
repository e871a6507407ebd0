"""The `[scheduler]` table of a quota file, and its defaults."""

from __future__ import annotations

from typing import Literal, get_args

from quota.value import value

Order = Literal[
    "fair",
    "fifo",
    "priority",
    "srtf",
    "las",
    "tiresias",
    "max-min",
    "optimus",
]
Admission = Literal["all", "load-limit"]
Placement = Literal["best-fit", "spread", "first-fit", "consolidated"]
Preemption = Literal["reclaim", "order", "none"]
ProjectOrder = Literal["fair", "fifo"]

ORDERS: tuple[Order, ...] = get_args(Order)
ADMISSIONS: tuple[Admission, ...] = get_args(Admission)
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
PREEMPTIONS: tuple[Preemption, ...] = get_args(Preemption)
PROJECT_ORDERS: tuple[ProjectOrder, ...] = get_args(ProjectOrder)


@value
class SchedulerOptions:
    """The numbers and policies that admins chose for the whole pool."""

    min_runtime_s: float = 600.0
    """A borrower runs this long before it may be preempted; 0: not protected."""
    grace_s: float = 30.0
    """Notice before a preempted process is killed, for jobs that ask for none of their own."""
    max_grace_s: float = 300.0
    """The longest notice a job may ask for; with `min_runtime_s` it bounds every guarantee."""
    plan_after_s: float = 7200.0
    """A waiting gang older than this gets a planned start."""
    borrow_slice_s: float = 21600.0
    """After this time a borrower may be rotated for a planned gang."""
    usage_half_life_s: float = 604800.0
    """Decay of borrowed usage in the order of borrowers; above zero."""
    order: Order = "fair"
    """The order of jobs of equal class."""
    admission: Admission = "all"
    """Which queued jobs are considered at all."""
    placement: Placement = "best-fit"
    """Which machines a gang gets."""
    preemption: Preemption = "reclaim"
    """Which jobs may preempt which; the guarantees hold for `reclaim` only."""
    max_queued_per_user: int = 10_000
    """The most waiting jobs per user; more are refused."""
    load_limit: float = 1.0
    """For `admission = "load-limit"`: demand over total above which new jobs are held back."""


DEFAULTS = SchedulerOptions()
"""The options without a `[scheduler]` table."""
