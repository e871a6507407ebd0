"""
What users and admins ask for through the inbox, and what of it can be refused at once.

Read `inbox` first, then `request` (what one may hold) and `answer`. `launch_request` submits a
launch (`origin` is where it came from, `queued` its jobs as they join the queue); `job_request` and
`machine_request` change jobs and machines. `quota_limits`, `names` and `targets` are what can be
refused at once, and `result` is the final record of a job.
"""
