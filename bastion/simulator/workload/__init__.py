"""
Which jobs come when.

`job.py` is one job and a workload of them; `trace.py` reads and writes files, whose columns are in
`columns.py`.
"""
