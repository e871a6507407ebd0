"""
The demo: a real bastion, real jobs and a real preemption on this machine.

Read `play` first: it submits the jobs. `stage` is the bucket and the bastion, `work/` the code of
the jobs, `devices` the simulated devices, `screen` the output, and `encore` the jobs after the
play.
"""
