"""
The end of a cycle: a verdict for every job, with its reason.

Read `verdicts` first. `waiting` gathers why gangs wait, so that thousands take little; `diagnosis`
finds the one reason that, taken away, lets a gang go on, with what `quota_walls`, `reach`,
`scatter` and `supply` know of quota and machines, and `outage` of what is broken. `trial` makes a
change for a moment, and `next_walls` asks what comes after it; `set_aside` does so for jobs that
take no part in the cycle. `census` is machine by machine, for a job that may not wait.
"""
