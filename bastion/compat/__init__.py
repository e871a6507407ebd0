"""
What was written for other systems, as launches.

Each file knows one system: its words, its defaults, and what of it has no meaning here. What cannot
be mapped is refused by name, never dropped: a job that runs otherwise than its author wrote is
worse than one that does not run.
"""
