"""
Root as one turn changes it, and the questions that a turn asks about it.

The input is the committed root; the output is the next one, with the events that led to it. Read
`root_draft` first. `targets` finds the jobs that a request means, with `launch_index`;
`dependencies` updates jobs that wait for others, and `launch_failures` ends the jobs of a failed
launch. `machines/` is what a turn changes about machines, and `machine_news` reports it.
`withdrawn_attempts` requeues jobs whose machines are not created, `active_names` finds active jobs
by name, and `places` says how much of root a job takes.
"""
