"""The end of a cycle: a verdict for every job, with its reason."""
