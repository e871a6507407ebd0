"""
The pages: what each shows, as values that its template lays out.

The input is what `bastion.web.reading` found. The output is frozen values, which
`bastion.web.drawing` turns into HTML. Each file is one page: `now`, `ended`, `failures`,
`machines`, `timeline`, `usage` (projects and users) and `quota`. The folder `job` is the page of
a job.
"""
