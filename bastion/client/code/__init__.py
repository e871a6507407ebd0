"""Code and outputs: sent with a launch, fetched from a job."""
