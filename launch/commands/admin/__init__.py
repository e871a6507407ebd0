"""
Verbs for people who run a bastion: up and down (`local`), serve and agent (`service`), `quota`,
fsck and restore (`bucket`), `doctor`, `setup`, `demo`.

Each is a few lines on top of `bastion.admin`, or of the service that it starts.

`vm` is the bastion's own VM and `web` the pages. `simulate` and `replay` run the scheduler on a
virtual clock, with the input that `study_input` reads.
"""
