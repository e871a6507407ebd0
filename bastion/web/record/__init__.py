"""
The record as pages need it: sums over a period, and which job was on which machine when.

The input is the record of a bucket, the output one small value per period. Read `summary` (that
value), `ask` (the SQL that computes it), `child` (a process that queries it and frees its memory
when it ends; `asker` starts and ends it, `kept_tables` are what it keeps open) and `reader` (one
answer for all readers, cached for a minute).
"""
