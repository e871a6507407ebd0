"""
What agents report about machines and hosts, and what is kept of an ended job.

`facts` arrive in bells, `registers` are written once, and `usage` is resource use. `output` has the
files that a job keeps, and `history` what is kept of its end.
"""
