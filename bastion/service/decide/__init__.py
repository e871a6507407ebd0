"""
What surrounds one decision of the scheduler.

In come the draft and the configuration; out goes the draft with the plan applied. Read
`schedulable_machines` first, the machines that a cycle may see. `cycles` asks the scheduler, within
the time that the lease leaves. `decayed_usage` keeps the usage that fairness needs, `applied_plan`
writes the plan into the draft, and `machine_batches` says which new machines are made together.
"""
