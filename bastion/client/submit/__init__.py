"""
Submission: a launch before it is sent.

A `Launch`, or the path of its file, comes in. The checked launch and its origin go out, or every
problem together. Read `launch_file` (parse), `strict` (no type is converted), `context` (reads of
the bucket), `check` (pure), `open_secrets` (a warning), `provenance` (the origin), then `dry_run`,
`outlook` (its words), `resubmit` and `submission_log`.
"""
