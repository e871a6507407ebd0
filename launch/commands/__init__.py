"""
The verbs, by purpose. Each file registers its verbs and runs them.

`submit/` sends launches, `look/` shows state, `change/` changes jobs and machines, `enter/`
connects to running jobs, `admin/` is for people who run a bastion, and `here/` is about this
machine only. `job_verb` adds a verb that takes jobs.
"""
