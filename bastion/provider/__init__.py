"""Where machines come from: the port, and one adapter a file."""
