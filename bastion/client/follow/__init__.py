"""
Logs: the segments of a job's log, filtered and followed.

Comes in: a job and a filter. Goes out: chunks of bytes, until nothing more can come. Read
`log_filter` (which bytes), `log_check` (whether the job has these), `log_reader` (segments to
chunks), `printed` (chunks as text, and as a notebook shows them), `lines` (chunks of several
processes, in whole lines), then `logs` (following jobs) and `notebook` (a bar while a cell waits).
`command` follows what a user runs beside a job.
"""
