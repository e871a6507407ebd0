"""
The verbs, by purpose. Each file registers its verbs and runs them.

`submit/` sends launches, `look/` shows, `change/` changes jobs, `admin/` is for those that run a
bastion, and `here/` is about this machine alone. `job_verb` is a verb that is given jobs.

`enter/` goes to where a job runs.
"""
