"""
Policies that only studies have.

`own.py` loads one from a file outside the package.
"""
