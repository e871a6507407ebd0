"""
Verbs for those that run a bastion: up and down (`local`), serve and agent (`service`), `quota`,
fsck and restore (`bucket`), `doctor`, `setup`, `demo`.

Each is a few lines on top of `bastion.admin`, or of the service that it starts.
"""
