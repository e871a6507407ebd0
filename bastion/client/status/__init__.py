"""
The bastion's own status, and how a view is read: what every command asks before anything else.

Comes in: a store. Goes out: `status_view`, the bastion and its projects as it last described them,
and whether one leads. `view_reader` reads the views of a bucket, each again only when it changed;
what is read of jobs extends it. `display` is how views look at a prompt and in a notebook.

It must not know jobs: a command that only submits loads nothing of `look`.
"""
