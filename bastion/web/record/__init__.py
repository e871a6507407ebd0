"""
The record as pages need it: sums over a period, and which job was on which machine when.

Comes in: the record of a bucket. Goes out: one small value a period. Read `summary` (that value),
`ask` (the SQL that makes it), `child` (a program that asks, so that what the record takes of memory
ends with it; `asker` begins and ends it, `kept_tables` are what it keeps open) and `reader` (one
answer for all readers, kept for a minute).
"""
