"""Code in the bucket: bundles of users, and the wheels that machines install."""
