"""
Logs: the segments of a job's log, filtered and followed.

A job and a filter come in. Chunks of bytes go out, until nothing more can come. Read `log_filter`
(selects bytes), `log_check` (checks that the job has them), `log_reader` (segments to chunks),
`printed` (chunks as text, and as a notebook shows them), `lines` (chunks of several processes, in
whole lines), then `logs` (following jobs) and `notebook` (a progress bar while a cell waits).
`command` follows a command that a user runs beside a job.
"""
