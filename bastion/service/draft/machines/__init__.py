"""
What one turn changes about machines, apart from creating and deleting them (`bastion.pool`).

The input is the draft of root; the output is machines that are closed, opened, drained or kept.
Read `health` first: machines that cannot start anything, or that failed jobs point to.
`deaf` has machines whose agents answer nothing. `drained` preempts jobs that run past the deadline
of a drain, `warm` keeps idle machines ready, and `upgraded` gives idle machines the bastion's
build.
"""
