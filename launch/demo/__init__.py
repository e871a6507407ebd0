"""
The demo: a real bastion, real jobs and a real preemption on this machine.

Read `play` first: what is submitted, and when. `stage` is the bucket and the bastion, `work/` what
the jobs run, `devices` are made up, `screen` is what is printed, and `encore` goes on after the
play.
"""
