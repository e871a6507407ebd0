"""
What one turn changes about machines, apart from making and deleting them (`bastion.pool`).

In comes the draft of root; out go machines that are closed, opened, drained or kept. Read `health`
first: machines that can start nothing, or that speak against themselves. `deaf` are those whose
agents answer nothing, `drained` preempts what runs past the deadline of a drain, `warm` keeps idle
machines ready, and `upgraded` gives idle machines the build of the bastion.
"""
