"""
What jobs run on.

`cluster.py` defines the machines, and `words.py` their notation on a command line or in a file.
"""
