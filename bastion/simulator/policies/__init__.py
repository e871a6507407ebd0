"""
Policies that only studies have.

`own.py` loads one from a file outside the package. `effective` implements `max-min` and `optimus`
by the value of devices to a job, and `synthesis` configures a policy that chooses among others.
"""
