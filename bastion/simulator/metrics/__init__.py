"""
The measures of a simulation.

`measures.py` computes the numbers of a result, `distribution.py` the quantiles and indices in them.
"""
