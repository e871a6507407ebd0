"""
Verbs that connect to a running job: exec, ssh, notebook.

A job is named with its replica, as `JOB/REPLICA`, which `place` parses. `exec` runs a command
through the bucket, `ssh` opens a shell with the user's own tools, `notebook` runs Jupyter as a job.
"""
