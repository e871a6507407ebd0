"""Your own hosts: the provider, and how hosts are distinguished."""
