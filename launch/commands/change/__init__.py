"""
Verbs that change jobs, in `jobs`: cancel, hold, release, prioritize, update.

Each resolves the named jobs, sends a request, and prints the result.

`machines` has what admins do to machines.
"""
