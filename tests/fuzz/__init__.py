"""Every door through which bytes of others come in, and what comes in by it."""
