"""
Which jobs arrive when.

`job.py` defines one job and a workload of them, and `load.py` how much work arrives. `trace.py`
reads and writes files, whose columns are in `columns.py`. `generate.py` draws jobs, and
`throughput.py` says how fast kinds of jobs are.

`philly.py` reads the trace of that name as it is published.
"""
