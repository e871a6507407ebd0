"""
What an admin asks of one machine: whether its agent answers, and whether its devices bear a load.

In comes the instruction `check`; out go an object with the outcome, and a bell. Read `checks`
first. `machine_lines` describes the machine; `burn` is a program of its own that loads every
processor, and every GPU by way of `cuda_burn`.
"""
