"""
What would have happened: the record of a bucket, played again.

`record.py` makes a workload of recorded attempts, `bucket.py` reads them with the machines and the
quota file of a bucket, `difference.py` compares two results job by job, and a replay with what was
recorded.

`script` is what users and admins did meanwhile.
"""
