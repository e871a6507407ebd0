"""
The pages: what each shows, as values that its template lays out.

The input is what `bastion.web.reading` found. The output is frozen values, which
`bastion.web.drawing` turns into HTML. Each file is one page or a part of one: `now`, `job` (with
its `array_tasks`, its `host_use` and its `log`), `ended`, `failures`, `machines`, `timeline`,
`usage` (projects and users) and `quota`; `spent` is what a job has cost.
"""
