"""
What a simulation is judged by.

`measures.py` makes numbers of a result, `distribution.py` the quantiles and the indices in them.
"""
