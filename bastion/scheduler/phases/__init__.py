"""The phases of one cycle, in the order in which it goes through them."""
