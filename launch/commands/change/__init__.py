"""
Verbs that change jobs, in `jobs`: cancel, hold, release, prioritize, update.

Each names jobs as it was told to, asks the bastion, and says what was done.
"""
