"""
Policies that only studies have.

`own.py` loads one from a file outside the package.

`effective` are `max-min` and `optimus` by what devices are worth to a job, and `synthesis` is for a
policy that chooses among others.
"""
