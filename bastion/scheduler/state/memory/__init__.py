"""
What one cycle leaves for the next.

`memory` is all of it; the plan is the same without it. `occupancy` is the machines and what holds
them, `known_walls` what the quota said against waiting gangs, and `standstill` a plan that is valid
while nothing changes. `policy_choice` is the set of policies of the cycle: with other policies
nothing is taken over.
"""
