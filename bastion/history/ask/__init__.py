"""
Questions to the record.

`usage` sums it up by project, user or pool, and `job_history` lists it job by job; `query` runs the
SQL of a user, who may read the tables and nothing else. All of them use DuckDB.
"""
