"""
The views of the queue, the pools and the bastion, which users read.

The input is a committed root, its plan and the files in force; the output is JSON objects below
`view/`. Views are not state: no decision depends on them. Read `views` first, then `queue_view`,
which keeps unchanged rows, and `array_rows`. `totals` keeps the sums that the status shows,
`steady_machines` distinguishes a heartbeat from a change, and `view_json` encodes. `bucket_readme`
explains the bucket to people who open it without Bastion.
"""
