"""
Queries of the record.

`usage` sums it up by project, user or pool, and `job_history` lists it job by job. `query` runs the
SQL of a user, which can read only the tables. All of them use DuckDB.
"""
