"""
Git: what a working tree differs in from a commit, and that commit on another machine.

`git` is the submitting machine, `clone` the one that runs the job. `access` is who may read a
repository and what its refusals mean, and `command` runs git with a deadline.
"""
