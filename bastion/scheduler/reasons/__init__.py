"""What the scheduler tells: one value a reason, and the words that make its sentence."""
