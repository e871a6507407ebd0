"""One host of one attempt: claimed, run, ended."""
