"""
Rounds in which running jobs yield to those before them in the order.

`rounds.py` goes from boundary to boundary and asks a planner which jobs run: the scheduler, as
`WholeRound` there, or one of two walks along the order, which `line.py` carries. `one_device.py`
is a walk that finds what the scheduler would; `strict_walk.py` is that of published studies.
`standing.py` counts devices.
"""
