"""What a host needs before it starts: code, image, Python environment, variables, secrets."""
