"""
Verbs that go to where a job runs: exec, ssh, notebook.

Each names a job, and a replica behind a slash. `place` reads that; `exec` runs a command through
the bucket, `ssh` opens a shell with the user's own tools, `notebook` submits a job that is entered.
"""
