"""
Several simulations as one study.

`point.py` is one of them. `compare.py` runs several on all cores, each in its own process, which
`process.py` starts and `program.py` runs. `points.py` derives them from the lists and ranges of a
command line. A notebook calls `simulate.py`, and then has a `study.py`: data frames and the report.

`on_pool/` is a study on the machines of a pool.
"""
