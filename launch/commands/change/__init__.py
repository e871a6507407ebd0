"""
Verbs that change jobs, in `jobs`: cancel, hold, release, prioritize, update.

Each resolves the named jobs, sends a request, and prints the result.

What admins do to machines is in `machines`.
"""
