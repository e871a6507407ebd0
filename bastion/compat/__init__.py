"""
Importers: job files of other systems, read as launches of Bastion.

Each file knows one system: its options, its defaults, and which of them have no counterpart here.
An option without a counterpart is refused by name and never dropped, because a job that runs
differently from what its author wrote is worse than one that does not run.
"""
