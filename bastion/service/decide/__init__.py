"""What surrounds one decision: the machines it is shown, usage, and the plan it gave."""
