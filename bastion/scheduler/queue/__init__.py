"""The waiting jobs: what each asks for, which may be looked at, and in which order."""
