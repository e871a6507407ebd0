"""The rules of the house, checked on its own source."""
