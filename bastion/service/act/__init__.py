"""
The outside effects of committed state: objects, machines, notifications and clean-up.

The input is the committed root. Work goes to lanes, and each piece of work returns an update for
the next draft. Everything here is idempotent, because a new leader repeats it. Read `actions` first
(the objects of jobs, batches, answers and the inbox) with `final_record` and `absorbed_objects`.
Then read `machines` (calls to providers) with `listing` (what these show), `shortages` (what these
lack) and `own_wheel` (what new machines install), and `notifications` with `webhook`.
`register_sweep`, `root_copies` and `bucket_gc` work in the background.
"""
