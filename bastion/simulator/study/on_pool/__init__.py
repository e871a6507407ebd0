"""
A study on the machines of a pool: an array of one job a point, whose results come back.

`parcel.py` packs the points with this very code, `task.py` is the program that runs one of them on
a machine, `stored.py` is a result as it lies in the bucket, and `run.py` submits, waits and merges.
"""
