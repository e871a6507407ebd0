"""
What one cycle leaves for the next.

`memory` is all of it; the plan is the same without. `occupancy` is the machines and what holds
them, `known_walls` what the quota had against waiting gangs, and `standstill` a plan that holds
while nothing moves. `policy_choice` is what the cycle is put together from: with other policies
nothing is taken over.
"""
