"""
A study on the machines of a pool: an array with one job per point, whose results are returned.

`parcel.py` packs the points with this same code. `task.py` is the program that runs one of them on
a machine, `stored.py` the format of a result in the bucket, and `run.py` submits, waits and merges.
"""
