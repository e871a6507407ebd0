"""
What jobs run on.

`cluster.py` is the machines, and `words.py` how a command line or a file writes them.
"""
