"""
Reads: views of jobs, pools and quota that the bastion published in the bucket.

Comes in: the name of a job or a project. Goes out: frozen views. Read `views` (the values), `rows`
(what was published, as values), `queue_rows` (those of the queue, as far as they are needed),
`job_line` (a job as a list shows it), `published` (their objects), `array_views` (tasks of arrays),
`find_job` (names to jobs), `watch` (wait until jobs end), and `told_reason` (why a job waits).
`way_in` is how the machine of a job is reached, and `usage` what machines and jobs use.
"""
