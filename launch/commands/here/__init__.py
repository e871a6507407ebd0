"""
Verbs about this machine alone: profiles (`config`), `help_page`, and scripts for the
shell (`completion`); `local_jobs`, what `down` would stop; and `removed_bucket`, `down` where the
bucket is gone.

None of them speaks with a bastion.
"""
