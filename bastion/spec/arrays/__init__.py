"""
An array: one launch of many tasks that differ in their parameters.

`array` is the tasks and how many run at once, `indices` a set of them, and `task` their names.
`sweep` is the parameters of each, and `template` puts these into commands and variables.
"""
