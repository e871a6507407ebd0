"""
Verbs about this machine only: profiles (`config`), `help_page`, shell scripts (`completion`), and
`auth`, which logs in to a cloud with the cloud's own program. None of them contacts a bastion.

`local_bastion` and `local_machines` are what `bastion up` starts, `local_jobs` what `bastion down`
would stop, and `removed_bucket` handles `bastion down` if the bucket is gone.
"""
