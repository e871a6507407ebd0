"""
The end of a cycle: a verdict for every job, with its reason.

Read `verdicts` first. `waiting` collects why gangs wait, so that thousands cost little. `diagnosis`
finds the one reason whose removal would let a gang start, using what `quota_walls`, `reach`,
`scatter` and `supply` know of quota and machines, and `outage` of what is broken. `trial` makes a
change temporarily, and `next_walls` asks what comes after it; `set_aside` does the same for jobs
that take no part in the cycle. `census` goes machine by machine, for a job that may not wait.
"""
