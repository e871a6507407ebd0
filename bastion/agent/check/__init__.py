"""
An admin's checks of one machine: whether its agent answers, and its devices withstand a load.

The instruction `check` comes in; an object with the outcome, and a bell, go out. Read `checks`
first. `machine_lines` describes the machine; `burn` is a separate program that loads every CPU, and
every GPU by way of `cuda_burn`.
"""
