"""What jobs run on: `cluster.py`, and in `words.py` how a command line or a file writes it."""
