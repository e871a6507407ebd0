"""
The views of the queue, the pools and the bastion, which users read.

In come a committed root, its plan and the files in force; out come JSON objects below `view/`.
Views are not state: no decision depends on them. Read `views` first, then `queue_view`, which keeps
rows that say the same, and `array_rows`. `totals` carries the sums that the status tells,
`steady_machines` tells a heartbeat from a change, `view_json` encodes;
`bucket_readme` explains the bucket to those that open it without Bastion.
"""
