"""
Reads: views of jobs, pools and quota that the bastion published in the bucket.

The name of a job or a project comes in; frozen views go out. Read `views` (the values), `rows`
(published rows as values), `queue_rows` (the rows of the queue, parsed as needed), `job_line` (a
job in a list), `published` (the published objects), `array_views` (tasks of arrays), `find_job`
(names to jobs), `watch` (waits until jobs end), and `told_reason` (why a job waits).

`way_in` is how to reach the machine of a job, and `usage` is what machines and jobs use.
"""
