"""The verbs, one file a noun; each has `register(verbs)`."""
