"""
Root as one turn changes it, and the questions that a turn asks of it.

In comes the committed root; out goes the next one, with the events that led to it. Read
`root_draft` first. `targets` finds the jobs that a request means, `dependencies` updates jobs that
wait for others, `launch_failures` ends the jobs of a failed launch, `machine_health` closes
machines that can start nothing, `deaf_machines` are those whose agents answer nothing,
`machine_news` tells what becomes of machines,
`withdrawn_attempts` requeues jobs whose machines are not made, and `active_names` finds active jobs
by name.
"""
