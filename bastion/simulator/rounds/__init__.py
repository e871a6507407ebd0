"""
Rounds in which running jobs yield to those before them in the order.

`rounds.py` advances from boundary to boundary and asks a planner which jobs run. The planner is the
scheduler, as `WholeRound` there, or one of two walks along the order, which `line.py` keeps.
`one_device.py` is a walk that finds what the scheduler would find; `strict_walk.py` is the one of
published studies. `standing.py` counts devices.
"""
