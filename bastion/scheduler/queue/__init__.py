"""
The waiting jobs: what each asks for, which are eligible, and in which order.

`eligibility` decides which jobs are in the queue, `shape` what a gang asks for, and `order` which
gang is next. `lines` keeps equal gangs in order from cycle to cycle; `forms` joins lines that need
the same room, and `positions` gives the place of a gang in its line.
"""
