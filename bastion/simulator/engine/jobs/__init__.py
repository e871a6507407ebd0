"""
The jobs of a simulation.

`life` is the work of one job, `costs` what stops and starts of it take, `waiting` which jobs are
shown to the scheduler, and `report` what policies are told of one.
"""
