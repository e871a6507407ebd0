"""What one cycle leaves for the next."""
