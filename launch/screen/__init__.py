"""
The screen: tables, notes, progress, and what jobs print.

Comes in: values and bytes. Goes out: data on stdout, all else on stderr. Read `visible` (nothing
unsafe reaches a terminal), `folded` (long lines), `notes` (stderr), `render` (tables and JSON),
`job_table` and `job_spec` (how a job looks), `quota_rows` (how the quota file looks), `printout`
(what jobs print beside notes), `followed` (a job while it is followed), then `progress` (bars).

`study_progress` is how far simulations are.
"""
