"""
Which jobs come when.

`job.py` is one job and a workload of them; `load.py` how much work comes; `trace.py` reads and
writes files, whose columns are in `columns.py`; `generate.py` draws jobs, and `throughput.py` says
how fast kinds of them are.

`philly.py` reads the trace of that name as it is published.
"""
