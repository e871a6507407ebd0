"""
The trees on the machine that runs a job.

`kept` are those in the machine's cache, and `checkout` is a job's own copy of one.
"""
