"""
Verbs about this machine alone: profiles (`config`), and scripts for the shell (`completion`).

None of them speaks with a bastion.
"""
