"""Where things lie in the bucket: every key, what a key says, and names that sort by time."""
