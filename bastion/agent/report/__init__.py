"""What an agent tells the bucket: bells, logs, ends."""
