"""
The screen: tables, notes, progress, and the output of jobs.

Input: values and bytes. Output: data on stdout, everything else on stderr. Read `visible` (nothing
unsafe reaches a terminal), `folded` (long lines), `notes` (stderr), `render` (tables and JSON),
`job_table` and `job_spec` (a job), `quota_rows` (the quota file), `printout` (the output of jobs
and notes on one terminal), `followed` (a followed job), then `progress` (bars).

`study_progress` shows the progress of simulations.
"""
