"""
The bastion's own status, and how a view is read: every command needs this before anything else.

A store comes in. Out goes `status_view`: the bastion and its projects as it last described them,
and whether a bastion leads. `view_reader` reads the views of a bucket, each again only after a
change; the reading of jobs extends it. `own_log` finds why a leader is silent, and
`local_machines` whether its machines have ended. `display` defines how views look at a prompt and
in a notebook.

This folder must not know jobs: a command that only submits loads nothing of `look`.
"""
