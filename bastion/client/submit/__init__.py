"""
Submission: a launch before it is sent.

Comes in: a `Launch`, or the path of its file. Goes out: the checked launch and its origin, or every
problem at once. Read `launch_file` (parse), `strict` (no type is converted), `context` (reads of
the bucket), `check` (pure), `open_secrets` (a warning), `provenance` (the origin), then `dry_run`,
`resubmit` and `submission_log`.
"""
