"""
The page of one job and its parts.

`page` is its state, attempts, events and code. `array_tasks` lists the tasks of an array, `spent`
what the job has cost, `host_use` what it used, and `log` the output of one process.
"""
