"""
Everything around one decision of the scheduler.

The input is the draft and the configuration; the output is the draft with the plan applied. Read
`schedulable_machines` first, the machines that a cycle can see. `cycles` asks the scheduler, within
the time that the lease leaves. `decayed_usage` keeps the usage that fairness needs, `applied_plan`
writes the plan into the draft, and `machine_batches` says which new machines are created together.
"""
