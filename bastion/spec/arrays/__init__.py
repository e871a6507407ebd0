"""
An array: one launch of many tasks that differ in their parameters.

`array` is the tasks and their limit on running at the same time, `indices` is a set of tasks, and
`task` is their names. `sweep` is the parameters of each task, and `template` inserts them into
commands and variables.
"""
