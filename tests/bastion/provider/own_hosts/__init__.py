"""Hosts of one's own: the provider, and what tells one host from another."""
