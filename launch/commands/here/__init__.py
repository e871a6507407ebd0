"""
Verbs about this machine alone: profiles (`config`), `help_page`, and scripts for the
shell (`completion`).

None of them speaks with a bastion.
"""
