"""
What agents report of machines and hosts, and what is kept of a job that ended.

`facts` come in bells, `registers` are written once, `usage` is what was used. `output` are the
files that a job keeps, and `history` is what is kept of its end.
"""
