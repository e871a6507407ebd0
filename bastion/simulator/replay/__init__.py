"""
What would have happened: a replay of a bucket's record.

`record.py` turns recorded attempts into a workload. `bucket.py` reads them with the machines and
the quota file of a bucket. `difference.py` compares two results job by job, and a replay with what
was recorded. `script` contains what users and admins did in the meantime.
"""
