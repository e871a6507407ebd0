"""House rules: what the code of all packages must keep, beyond what common linters check."""
