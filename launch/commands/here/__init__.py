"""
Verbs about this machine alone: profiles (`config`), `help_page`, and scripts for the
shell (`completion`); `local_jobs`, what `down` would stop; and `removed_bucket`, `down` where the
bucket is gone.

None of them speaks with a bastion.

`auth` logs in to a cloud by its own program; `local_bastion` and `local_machines` are what `bastion
up` has started.
"""
