"""What runs on every machine: the keeper holds the processes, the agent speaks with the bucket."""
