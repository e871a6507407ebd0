"""How far one host of one attempt is; the moves between stages are in `bastion.agent.host.host`."""

from __future__ import annotations

from enum import Enum


class Stage(Enum):
    """How far a host is."""

    CLAIMING = "claiming"
    ASKING = "asking"
    SETTING_UP = "setting up"
    AT_BARRIER = "at the barrier"
    RUNNING = "running"
    HOLDING = "holding"
    ENDING = "ending"
    GONE = "gone"
