"""
The record as pages need it: sums over a period, which job was on which machine when, ended jobs.

The input is the record of a bucket, the output one small value per question. Read `question` and
`summary` (those values), `ask` and `ended` (the SQL that answers), `child` (a process that queries
the record and frees its memory when it ends; `asker` starts and ends it, `kept_tables` are what it
keeps open) and `reader` (one answer for all readers, cached for a minute).
"""
