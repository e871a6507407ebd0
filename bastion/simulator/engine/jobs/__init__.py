"""
The jobs of a simulation.

`life` is the work of one job, `costs` the cost of stops and starts, `waiting` which jobs are shown
to the scheduler, and `report` the facts about a job that policies get.
"""
