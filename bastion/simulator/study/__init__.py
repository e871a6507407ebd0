"""
Several simulations as one study.

`point.py` is one of them; `compare.py` runs several on all cores, each in a program of its own that
`process.py` starts and `program.py` is; `points.py` makes them of the lists and ranges of a
command line; `simulate.py` is asked by a notebook, which then holds a `study.py`: data frames and
the report.

`on_pool/` is a study on the machines of a pool.
"""
