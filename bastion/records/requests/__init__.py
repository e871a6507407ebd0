"""
What users and admins ask for through the inbox, and which of it can be refused immediately.

Read `inbox` first, then `request` (what each can hold) and `answer`. `launch_request` submits a
launch (`origin` says where it came from, `queued` makes its jobs as they join the queue);
`job_request` and `machine_request` change jobs and machines. `quota_limits`, `names` and `targets`
find what can be refused immediately, and `result` is the final record of a job.
"""
